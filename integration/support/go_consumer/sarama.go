package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/IBM/sarama"
)

var strategies = map[string]func() sarama.BalanceStrategy{
	"range":      sarama.NewBalanceStrategyRange,
	"roundrobin": sarama.NewBalanceStrategyRoundRobin,
	"sticky":     sarama.NewBalanceStrategySticky,
}

func consumeWithSarama(running context.Context, config configuration) {
	settings := sarama.NewConfig()
	settings.Version = sarama.V2_8_0_0
	settings.ClientID = config.clientID
	settings.RackID = config.rack
	settings.Metadata.RefreshFrequency = 2 * time.Second
	settings.Consumer.MaxWaitTime = 100 * time.Millisecond
	settings.Consumer.Offsets.Initial = sarama.OffsetOldest
	settings.Consumer.Group.Session.Timeout = 30 * time.Second
	settings.Consumer.Group.Heartbeat.Interval = 200 * time.Millisecond
	settings.Consumer.Group.Rebalance.GroupStrategies = []sarama.BalanceStrategy{
		strategies[config.assignor](),
	}
	group, err := sarama.NewConsumerGroup(config.bootstrap, config.group, settings)
	if err != nil {
		panic(err)
	}
	defer group.Close()
	for running.Err() == nil {
		// Returns when the group rebalances.
		if err := group.Consume(running, config.topics, saramaHandler{}); err != nil {
			fmt.Fprintln(os.Stderr, err)
			time.Sleep(200 * time.Millisecond)
		}
	}
}

type saramaHandler struct{}

func (saramaHandler) Setup(session sarama.ConsumerGroupSession) error {
	writeChange("partitions_assigned", session.Claims())
	return nil
}

func (saramaHandler) Cleanup(session sarama.ConsumerGroupSession) error {
	writeChange("partitions_revoked", session.Claims())
	return nil
}

func (saramaHandler) ConsumeClaim(
	session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim,
) error {
	for message := range claim.Messages() {
		writeRecord(message.Topic, message.Partition, message.Offset)
		session.MarkMessage(message, "")
	}
	return nil
}
