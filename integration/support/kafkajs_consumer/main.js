// A stock consumer of KafkaJS, whose output is that of Kafka's VerifiableConsumer: a line of JSON for
// each assignment, revocation and record. It leaves its group when it is terminated.
//
// Arguments: bootstrap servers, group, topics separated by commas, and client id. Its assignor is
// RoundRobinAssigner, KafkaJS's only one.
"use strict";

const { Kafka, logLevel } = require("kafkajs");

const [bootstrap, groupId, topics, clientId] = process.argv.slice(2);
const kafka = new Kafka({
  clientId,
  brokers: bootstrap.split(","),
  logLevel: logLevel.ERROR,
});
const consumer = kafka.consumer({
  groupId,
  sessionTimeout: 30000,
  heartbeatInterval: 200,
  metadataMaxAge: 2000,
  maxWaitTimeInMs: 100,
  retry: { initialRetryTime: 100, retries: 20 },
});
let owned = [];

function write(line) {
  process.stdout.write(JSON.stringify(line) + "\n");
}

function revoke() {
  if (owned.length) {
    write({ name: "partitions_revoked", partitions: owned });
  }
  owned = [];
}

for (const event of ["REBALANCING", "DISCONNECT", "STOP", "CRASH"]) {
  consumer.on(consumer.events[event], revoke);
}
consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => {
  revoke();
  owned = Object.entries(payload.memberAssignment).flatMap(([topic, numbers]) =>
    numbers.map((partition) => ({ topic, partition })),
  );
  write({ name: "partitions_assigned", partitions: owned });
});

async function main() {
  await consumer.connect();
  await consumer.subscribe({ topics: topics.split(","), fromBeginning: true });
  await consumer.run({
    autoCommitInterval: 1000,
    eachMessage: async ({ topic, partition, message }) => {
      write({ name: "record_data", topic, partition, offset: Number(message.offset) });
    },
  });
}

process.on("SIGTERM", async () => {
  await consumer.disconnect();
  process.exit(0);
});
main().catch((error) => {
  console.error(error);
  process.exit(1);
});
