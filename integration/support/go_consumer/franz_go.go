package main

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

var balancers = map[string]func() kgo.GroupBalancer{
	"range":              kgo.RangeBalancer,
	"roundrobin":         kgo.RoundRobinBalancer,
	"sticky":             kgo.StickyBalancer,
	"cooperative-sticky": kgo.CooperativeStickyBalancer,
}

func consumeWithFranzGo(running context.Context, config configuration) {
	writer := func(name string) func(context.Context, *kgo.Client, map[string][]int32) {
		return func(_ context.Context, _ *kgo.Client, changed map[string][]int32) {
			writeChange(name, changed)
		}
	}
	client, err := kgo.NewClient(
		kgo.SeedBrokers(config.bootstrap...),
		kgo.ConsumerGroup(config.group),
		kgo.ConsumeTopics(config.topics...),
		kgo.ClientID(config.clientID),
		kgo.Rack(config.rack),
		kgo.Balancers(balancers[config.assignor]()),
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
	for running.Err() == nil {
		client.PollFetches(running).EachRecord(func(each *kgo.Record) {
			writeRecord(each.Topic, each.Partition, each.Offset)
		})
	}
}
