// Times the work of a group's leader in franz-go, from encoded subscriptions to encoded assignments.
//
// Reads one group from the file that is its argument: JSON with the racks of the partitions'
// leaders by topic ("" if unknown), and the members with their subscriptions in base64. Then, for
// each line on standard input, makes one assignment and answers with one line of JSON: the
// milliseconds that it took, and how many partitions of it are off-rack.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"runtime"
	"syscall"
	"time"
	"unsafe"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

type member struct {
	ID           string
	Rack         string
	Subscription []byte
}

type group struct {
	Leaders map[string][]string
	Members []member
}

// unexported returns a field of a ConsumerBalancer that only a client of franz-go can set: whether
// to balance by rack, and the racks of the leaders, are options of the client.
func unexported(balancer *kgo.ConsumerBalancer, name string) reflect.Value {
	field := reflect.ValueOf(balancer).Elem().FieldByName(name)
	return reflect.NewAt(field.Type(), unsafe.Pointer(field.UnsafeAddr())).Elem()
}

func assign(members []kmsg.JoinGroupResponseMember, leaders map[string][]string) []kmsg.SyncGroupRequestGroupAssignment {
	parsed, topics, err := kgo.CooperativeStickyBalancer().MemberBalancer(members)
	if err != nil {
		panic(err)
	}
	sizes := make(map[string]int32, len(topics))
	racks := make(map[string][]string, len(topics))
	for topic := range topics {
		sizes[topic] = int32(len(leaders[topic]))
		// The client copies them from its metadata.
		racks[topic] = append([]string(nil), leaders[topic]...)
	}
	balancer := parsed.(*kgo.ConsumerBalancer)
	unexported(balancer, "balanceRacks").SetBool(true)
	unexported(balancer, "partitionRacks").Set(reflect.ValueOf(racks))
	into, err := balancer.BalanceOrError(sizes)
	if err != nil {
		panic(err)
	}
	return into.IntoSyncAssignment()
}

func offRack(assignments []kmsg.SyncGroupRequestGroupAssignment, g group) int {
	rackOf := make(map[string]string)
	for _, each := range g.Members {
		rackOf[each.ID] = each.Rack
	}
	count := 0
	for _, each := range assignments {
		assigned, err := kgo.ParseConsumerSyncAssignment(each.MemberAssignment)
		if err != nil {
			panic(err)
		}
		for topic, partitions := range assigned {
			for _, partition := range partitions {
				leader := g.Leaders[topic][partition]
				if leader != "" && leader != rackOf[each.MemberID] {
					count++
				}
			}
		}
	}
	return count
}

// cpuTime returns what all threads of this process have used, those of the garbage collector too.
func cpuTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

func main() {
	data, err := os.ReadFile(os.Args[1])
	if err != nil {
		panic(err)
	}
	var g group
	if err := json.Unmarshal(data, &g); err != nil {
		panic(err)
	}
	members := make([]kmsg.JoinGroupResponseMember, len(g.Members))
	for i, each := range g.Members {
		members[i] = kmsg.NewJoinGroupResponseMember()
		members[i].MemberID = each.ID
		members[i].ProtocolMetadata = each.Subscription
	}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		runtime.GC()
		started, cpu := time.Now(), cpuTime()
		assignments := assign(members, g.Leaders)
		cpu, elapsed := cpuTime()-cpu, time.Since(started)
		fmt.Printf("{\"cpu\": %f, \"elapsed\": %f, \"off_rack\": %d}\n",
			float64(cpu.Nanoseconds())/1e6, float64(elapsed.Nanoseconds())/1e6, offRack(assignments, g))
	}
}
