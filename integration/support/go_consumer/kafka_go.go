package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/segmentio/kafka-go"
)

var groupBalancers = map[string]func(rack string) kafka.GroupBalancer{
	"range":         func(string) kafka.GroupBalancer { return kafka.RangeGroupBalancer{} },
	"roundrobin":    func(string) kafka.GroupBalancer { return kafka.RoundRobinGroupBalancer{} },
	"rack-affinity": func(rack string) kafka.GroupBalancer { return kafka.RackAffinityGroupBalancer{Rack: rack} },
}

func consumeWithKafkaGo(running context.Context, config configuration) {
	group, err := kafka.NewConsumerGroup(kafka.ConsumerGroupConfig{
		ID:                     config.group,
		Brokers:                config.bootstrap,
		Topics:                 config.topics,
		Dialer:                 &kafka.Dialer{ClientID: config.clientID, Timeout: 10 * time.Second},
		GroupBalancers:         []kafka.GroupBalancer{groupBalancers[config.assignor](config.rack)},
		HeartbeatInterval:      200 * time.Millisecond,
		PartitionWatchInterval: 2 * time.Second,
		WatchPartitionChanges:  true,
		SessionTimeout:         30 * time.Second,
		StartOffset:            kafka.FirstOffset,
	})
	if err != nil {
		panic(err)
	}
	defer group.Close()
	for running.Err() == nil {
		generation, err := group.Next(running)
		if err != nil {
			if !errors.Is(err, context.Canceled) {
				fmt.Fprintln(os.Stderr, err)
			}
			continue
		}
		assigned := map[string][]int32{}
		for topic, partitions := range generation.Assignments {
			for _, each := range partitions {
				assigned[topic] = append(assigned[topic], int32(each.ID))
				generation.Start(reader(config, generation, topic, each))
			}
		}
		writeChange("partitions_assigned", assigned)
		generation.Start(func(ended context.Context) {
			<-ended.Done()
			writeChange("partitions_revoked", assigned)
		})
	}
}

func reader(
	config configuration, generation *kafka.Generation, topic string, each kafka.PartitionAssignment,
) func(context.Context) {
	return func(ended context.Context) {
		reader := kafka.NewReader(kafka.ReaderConfig{
			Brokers: config.bootstrap, Topic: topic, Partition: each.ID, MaxWait: 100 * time.Millisecond,
		})
		defer reader.Close()
		if err := reader.SetOffset(each.Offset); err != nil {
			panic(err)
		}
		for {
			message, err := reader.ReadMessage(ended)
			if err != nil {
				return
			}
			writeRecord(topic, int32(each.ID), message.Offset)
			offsets := map[string]map[int]int64{topic: {each.ID: message.Offset + 1}}
			if err := generation.CommitOffsets(offsets); err != nil {
				fmt.Fprintln(os.Stderr, err)
			}
		}
	}
}
