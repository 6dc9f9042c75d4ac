// A consumer of a Go client, whose output is that of Kafka's VerifiableConsumer: a line of JSON for
// each assignment, revocation and record. It leaves its group when it is terminated.
//
// Arguments: franz-go, sarama or kafka-go; bootstrap servers, group, topics separated by commas, client
// id, rack, and the assignor. Or "produce", bootstrap servers, topic and rack: see producer.go.
package main

import (
	"context"
	"encoding/json"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
)

type configuration struct {
	bootstrap []string
	group     string
	topics    []string
	clientID  string
	rack      string
	assignor  string
}

var clients = map[string]func(context.Context, configuration){
	"franz-go": consumeWithFranzGo,
	"sarama":   consumeWithSarama,
	"kafka-go": consumeWithKafkaGo,
}

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

func writeChange(name string, changed map[string][]int32) {
	partitions := []partition{}
	for topic, numbers := range changed {
		for _, number := range numbers {
			partitions = append(partitions, partition{topic, number})
		}
	}
	write(change{name, partitions})
}

func writeRecord(topic string, number int32, offset int64) {
	write(record{"record_data", partition{topic, number}, offset})
}

func main() {
	if os.Args[1] == "produce" {
		produceWithFranzGo(strings.Split(os.Args[2], ","), os.Args[3], os.Args[4])
		return
	}
	running, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	clients[os.Args[1]](running, configuration{
		bootstrap: strings.Split(os.Args[2], ","),
		group:     os.Args[3],
		topics:    strings.Split(os.Args[4], ","),
		clientID:  os.Args[5],
		rack:      os.Args[6],
		assignor:  os.Args[7],
	})
}
