import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.Optional;
import java.util.Random;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.metadata.placement.ClusterDescriber;
import org.apache.kafka.metadata.placement.PlacementSpec;
import org.apache.kafka.metadata.placement.StripedReplicaPlacer;
import org.apache.kafka.metadata.placement.UsableBroker;

/**
 * Times Kafka's StripedReplicaPlacer, and prints the minimum of several rounds in milliseconds.
 * Arguments: partitions, replicas, brokers, rounds, then the racks of brokers 0, 1, 2 and so on,
 * from the first again after the last.
 */
public final class Main {
    private record Cluster(List<UsableBroker> brokers) implements ClusterDescriber {
        @Override
        public Iterator<UsableBroker> usableBrokers() {
            return brokers.iterator();
        }

        @Override
        public Uuid defaultDir(int broker) {
            return Uuid.ZERO_UUID;
        }
    }

    public static void main(String[] arguments) {
        int brokers = Integer.parseInt(arguments[2]);
        PlacementSpec spec = new PlacementSpec(
            0, Integer.parseInt(arguments[0]), Short.parseShort(arguments[1]));
        List<UsableBroker> usable = new ArrayList<>();
        for (int broker = 0; broker < brokers; broker++) {
            String rack = arguments[4 + broker % (arguments.length - 4)];
            usable.add(new UsableBroker(broker, Optional.of(rack), false));
        }
        Cluster cluster = new Cluster(usable);
        StripedReplicaPlacer placer = new StripedReplicaPlacer(new Random(1));
        double fastest = Double.MAX_VALUE;
        for (int round = 0; round < Integer.parseInt(arguments[3]); round++) {
            long start = System.nanoTime();
            int placed = placer.place(spec, cluster).assignments().size();
            fastest = Math.min(fastest, (System.nanoTime() - start) / 1e6);
            if (placed != spec.numPartitions()) {
                throw new AssertionError(placed);
            }
        }
        System.out.println(fastest);
    }
}
