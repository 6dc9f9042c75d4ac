import java.io.Reader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.Properties;
import org.apache.kafka.streams.CloseOptions;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.processor.api.ContextualProcessor;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.processor.api.RecordMetadata;

/**
 * Reads topics with Kafka Streams, and prints a JSON object per record; arguments: a file of
 * properties, and topics with commas. It leaves its group when it is ended.
 */
public class StreamsApp {
    static class Printer extends ContextualProcessor<byte[], byte[], Void, Void> {
        @Override
        public void process(Record<byte[], byte[]> record) {
            RecordMetadata source = context().recordMetadata().orElseThrow();
            System.out.printf(
                "{\"name\": \"record_data\", \"topic\": \"%s\", \"partition\": %d, \"offset\": %d}%n",
                source.topic(), source.partition(), source.offset());
        }
    }

    public static void main(String[] arguments) throws Exception {
        Properties properties = new Properties();
        try (Reader reader = Files.newBufferedReader(Path.of(arguments[0]))) {
            properties.load(reader);
        }
        StreamsBuilder builder = new StreamsBuilder();
        builder.<byte[], byte[]>stream(Arrays.asList(arguments[1].split(","))).process(Printer::new);
        KafkaStreams streams = new KafkaStreams(builder.build(), properties);
        CloseOptions leave =
            CloseOptions.groupMembershipOperation(CloseOptions.GroupMembershipOperation.LEAVE_GROUP);
        Runtime.getRuntime().addShutdownHook(new Thread(() -> streams.close(leave)));
        streams.start();
        Thread.currentThread().join();
    }
}
