// A stock consumer of franz-go, whose output is that of Kafka's VerifiableConsumer: a line of JSON for
// each assignment, revocation and record. It leaves its group when it is terminated.
//
// Arguments: bootstrap servers, group, topics separated by commas, client id, rack, and one of
// range, roundrobin, sticky and cooperative-sticky.
package main

import (
	"context"
	"encoding/json"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

type partition struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
}

type change struct {
	Name       string      `json:"name"`
	Partitions []partition `json:"partitions"`
}

type record struct {
	Name string `json:"name"`
	partition
	Offset int64 `json:"offset"`
}

var balancers = map[string]func() kgo.GroupBalancer{
	"range":              kgo.RangeBalancer,
	"roundrobin":         kgo.RoundRobinBalancer,
	"sticky":             kgo.StickyBalancer,
	"cooperative-sticky": kgo.CooperativeStickyBalancer,
}

var (
	output = json.NewEncoder(os.Stdout)
	lock   sync.Mutex
)

func write(line any) {
	lock.Lock()
	defer lock.Unlock()
	if err := output.Encode(line); err != nil {
		panic(err)
	}
}

func writer(name string) func(context.Context, *kgo.Client, map[string][]int32) {
	return func(_ context.Context, _ *kgo.Client, changed map[string][]int32) {
		partitions := []partition{}
		for topic, numbers := range changed {
			for _, number := range numbers {
				partitions = append(partitions, partition{topic, number})
			}
		}
		write(change{name, partitions})
	}
}

func main() {
	bootstrap, group, topics := os.Args[1], os.Args[2], os.Args[3]
	client, err := kgo.NewClient(
		kgo.SeedBrokers(strings.Split(bootstrap, ",")...),
		kgo.ConsumerGroup(group),
		kgo.ConsumeTopics(strings.Split(topics, ",")...),
		kgo.ClientID(os.Args[4]),
		kgo.Rack(os.Args[5]),
		kgo.Balancers(balancers[os.Args[6]]()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.SessionTimeout(30*time.Second),
		kgo.HeartbeatInterval(200*time.Millisecond),
		kgo.MetadataMinAge(100*time.Millisecond),
		kgo.MetadataMaxAge(2*time.Second),
		kgo.FetchMaxWait(100*time.Millisecond),
		kgo.AutoCommitInterval(time.Second),
		kgo.OnPartitionsAssigned(writer("partitions_assigned")),
		kgo.OnPartitionsRevoked(writer("partitions_revoked")),
		kgo.OnPartitionsLost(writer("partitions_revoked")),
	)
	if err != nil {
		panic(err)
	}
	defer client.Close()
	running, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	for running.Err() == nil {
		client.PollFetches(running).EachRecord(func(each *kgo.Record) {
			write(record{"record_data", partition{each.Topic, each.Partition}, each.Offset})
		})
	}
}
