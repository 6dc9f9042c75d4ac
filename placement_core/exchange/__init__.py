"""Which brokers hold each partition, exactly: the solver behind reassignments and leader layouts.

The problem. Every partition chooses brokers (the set of its replicas, or the one that leads)
from those that its rules permit. A choice costs something per partition (a replica that has to
be copied, a leader that changes), and the *loads* that all choices together put on brokers and
racks cost something, too (uneven loads, reads across racks). Wanted: a choice of least sum.

It is a flow: units go from partitions to brokers, through racks where rules bind racks, and on
from the brokers to whatever counts loads. :mod:`placement_core.matching` solves networks of
two layers, with members that differ in what they already own. Here there are more layers
(partition, its share of a rack, broker, rack) and as many different partitions as there are,
but only a few hundred brokers. So the network is *contracted to the brokers*:

* An **exchange** ``u -> v`` takes one unit of some partition from broker u to broker v. It is all
  that a residual path through that partition can do. Its cost is that of the cheapest
  partition that may do it. (:class:`Exchange`)
* **Outer arcs** lead from brokers to the nodes that count loads, and back: the marginal costs of
  one unit more or one less. (:class:`Outer`)

A choice is optimal if and only if its residual network has no cycle of negative cost, whatever
way led to it. So: start anywhere sensible, cancel negative cycles until there are none
(:mod:`~placement_core.exchange.cancel`). The end is proved by the potentials that the search
for a cycle leaves behind (:mod:`~placement_core.exchange.cycles`).

Why contracting is right. A cycle of the contracted graph is a closed walk of the whole one: an
exchange through partition p is a path between two brokers inside p, and where walks within one p
meet, costs add up. A closed walk is made of simple cycles; if it is negative, one of those is.
The other way round, a simple cycle of the whole network is cut into exchanges by the
brokers that it visits. What contraction loses is that two exchanges of one cycle may share
a partition and get into each other's way. Where they do, swapping their ends gives two cycles
with fewer arcs and the same sum, one of them negative: so a negative cycle *with the fewest
arcs* can always be carried out, and is what is searched for when another turns out not to be.

How it gets fast. The cost of all exchanges is a matrix of brokers by brokers, made with a few
passes over arrays; a cycle is repeated as often as it pays; and most of the work is done before,
by moving units straight from brokers above the level to brokers below it
(:mod:`~placement_core.exchange.level`), which leaves few cycles to find.

Sources: R. Ahuja, T. Magnanti, J. Orlin, *Network Flows* (1993), sections 9.6 (cycle
cancelling) and 14 (convex costs).
"""

from placement_core.exchange.cancel import Exchange, Outer, settle
from placement_core.exchange.cycles import FAR
from placement_core.exchange.level import even_out
from placement_core.exchange.squares import SquaredLoads

__all__ = ["FAR", "Exchange", "Outer", "SquaredLoads", "even_out", "settle"]
