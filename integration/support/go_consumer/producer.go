// A producer of franz-go: writes records without a key, and a line of JSON for each with its partition.

package main

import (
	"bufio"
	"context"
	"fmt"
	"os"

	"github.com/twmb/franz-go/pkg/kgo"
)

// The values are the lines of the standard input. With a rack, records prefer leaders in it (KIP-1123).
func produceWithFranzGo(bootstrap []string, topic, rack string) {
	options := []kgo.Opt{
		kgo.SeedBrokers(bootstrap...), kgo.DefaultProduceTopic(topic),
		kgo.ProducerBatchCompression(kgo.NoCompression()),
	}
	if rack != "" {
		options = append(options, kgo.Rack(rack), kgo.RackAwarePartitioning())
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		panic(err)
	}
	defer client.Close()
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		value := []byte(lines.Text())
		client.Produce(context.Background(), &kgo.Record{Value: value}, func(r *kgo.Record, err error) {
			if err != nil {
				panic(err)
			}
			write(map[string]any{"value": string(value[:8]), "partition": r.Partition})
		})
	}
	if err := client.Flush(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
}
