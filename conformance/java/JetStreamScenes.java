import io.nats.client.BaseConsumerContext;
import io.nats.client.Connection;
import io.nats.client.ConsumerContext;
import io.nats.client.FetchConsumer;
import io.nats.client.IterableConsumer;
import io.nats.client.JetStream;
import io.nats.client.JetStreamApiException;
import io.nats.client.JetStreamManagement;
import io.nats.client.JetStreamSubscription;
import io.nats.client.KeyValue;
import io.nats.client.Message;
import io.nats.client.ObjectStore;
import io.nats.client.OrderedConsumerContext;
import io.nats.client.PublishOptions;
import io.nats.client.PullSubscribeOptions;
import io.nats.client.PushSubscribeOptions;
import io.nats.client.StreamContext;
import io.nats.client.api.AckPolicy;
import io.nats.client.api.ConsumerConfiguration;
import io.nats.client.api.ConsumerInfo;
import io.nats.client.api.KeyValueConfiguration;
import io.nats.client.api.KeyValueEntry;
import io.nats.client.api.KeyValueOperation;
import io.nats.client.api.KeyValueWatcher;
import io.nats.client.api.MessageInfo;
import io.nats.client.api.ObjectInfo;
import io.nats.client.api.ObjectMeta;
import io.nats.client.api.ObjectStoreConfiguration;
import io.nats.client.api.OrderedConsumerConfiguration;
import io.nats.client.api.PublishAck;
import io.nats.client.api.RetentionPolicy;
import io.nats.client.api.StorageType;
import io.nats.client.api.StreamConfiguration;
import io.nats.client.api.StreamInfo;
import io.nats.service.Endpoint;
import io.nats.service.Service;
import io.nats.service.ServiceBuilder;
import io.nats.service.ServiceEndpoint;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/** What the official Java client does with streams, consumers, key-value and object stores, and services. */
final class JetStreamScenes {
    private static final Duration PATIENCE = Duration.ofSeconds(5);
    private static final int MANY = 1000;

    private JetStreamScenes() {}

    /** Gives the connection to a server with JetStream. */
    interface Scene {
        void on(Connection connection) throws Exception;
    }

    static void streamsAreManaged(Connection c) throws Exception {
        JetStreamManagement manager = c.jetStreamManagement();
        StreamInfo made = manager.addStream(stream("S", "s.>"));
        same(made.getConfiguration().getSubjects(), List.of("s.>"));
        same(manager.getStreamNames(), List.of("S"));
        JetStream js = c.jetStream();
        for (int i = 1; i <= 10; i++) {
            same(js.publish("s." + i % 2, bytes("m" + i)).getSeqno(), (long) i);
        }
        MessageInfo third = manager.getMessage("S", 3);
        same(new String(third.getData(), StandardCharsets.UTF_8), "m3");
        same(manager.getLastMessage("S", "s.1").getSeq(), 9L);
        check(manager.deleteMessage("S", 3), "not deleted");
        same(manager.purgeStream("S").getPurged(), 9L);
        same(manager.getStreamInfo("S").getStreamState().getFirstSequence(), 11L);
        check(manager.deleteStream("S"), "not deleted");
        same(failure(() -> manager.getStreamInfo("S")).getApiErrorCode(), 10059);
    }

    static void publishing(Connection c) throws Exception {
        c.jetStreamManagement().addStream(stream("S", "s"));
        JetStream js = c.jetStream();
        PublishAck first = js.publish("s", bytes("a"), PublishOptions.builder().messageId("id-1").build());
        PublishAck again = js.publish("s", bytes("a"), PublishOptions.builder().messageId("id-1").build());
        check(!first.isDuplicate() && again.isDuplicate(), "not deduplicated");
        PublishOptions wrong = PublishOptions.builder().expectedLastSequence(7).build();
        same(failure(() -> js.publish("s", bytes("b"), wrong)).getApiErrorCode(), 10071);
        List<CompletableFuture<PublishAck>> acks = new ArrayList<>();
        for (int i = 0; i < MANY; i++) {
            acks.add(js.publishAsync("s", bytes("m" + i)));
        }
        for (int i = 0; i < MANY; i++) {
            same(acks.get(i).get(PATIENCE.toSeconds(), TimeUnit.SECONDS).getSeqno(), (long) i + 2);
        }
    }

    static void pullWithAcknowledgements(Connection c) throws Exception {
        filled(c, stream("S", "s"), MANY);
        StreamContext stream = c.getStreamContext("S");
        ConsumerContext consumer = stream.createOrUpdateConsumer(
                ConsumerConfiguration.builder().durable("D").ackWait(Duration.ofSeconds(30)).build());
        int seen = 0;
        while (seen < MANY) {
            try (FetchConsumer fetch = consumer.fetchMessages(100)) {
                for (Message m = fetch.nextMessage(); m != null; m = fetch.nextMessage()) {
                    same(m.metaData().streamSequence(), (long) ++seen);
                    m.ackSync(PATIENCE);
                }
            }
        }
        ConsumerInfo info = consumer.getConsumerInfo();
        same(info.getNumAckPending(), 0L);
        same(info.getNumPending(), 0L);
        same(info.getAckFloor().getStreamSequence(), (long) MANY);
    }

    static void nakTermAndProgress(Connection c) throws Exception {
        filled(c, stream("S", "s"), 3);
        JetStreamSubscription sub = c.jetStream().subscribe("s", PullSubscribeOptions.builder().durable("D").build());
        List<Message> three = sub.fetch(3, PATIENCE);
        three.get(0).nak();
        three.get(1).term();
        three.get(2).inProgress();
        three.get(2).ackSync(PATIENCE);
        List<Message> again = sub.fetch(1, PATIENCE);
        same(again.get(0).metaData().streamSequence(), 1L);
        same(again.get(0).metaData().deliveredCount(), 2L);
        again.get(0).ackSync(PATIENCE);
        same(sub.getConsumerInfo().getNumAckPending(), 0L);
    }

    static void consumeWithoutEnd(Connection c) throws Exception {
        filled(c, stream("S", "s"), MANY);
        ConsumerContext consumer = c.getStreamContext("S").createOrUpdateConsumer(
                ConsumerConfiguration.builder().durable("D").build());
        CountDownLatch all = new CountDownLatch(MANY);
        try (var consuming = consumer.consume(message -> {
            message.ack();
            all.countDown();
        })) {
            check(all.await(PATIENCE.toSeconds(), TimeUnit.SECONDS), all.getCount() + " are missing");
        }
    }

    static void orderedConsumers(Connection c) throws Exception {
        filled(c, stream("S", "s"), MANY);
        OrderedConsumerContext ordered = c.getStreamContext("S").createOrderedConsumer(new OrderedConsumerConfiguration());
        follow(ordered);
        JetStreamSubscription push = c.jetStream().subscribe("s", PushSubscribeOptions.builder().ordered(true).build());
        for (int i = 1; i <= MANY; i++) {
            same(push.nextMessage(PATIENCE).metaData().streamSequence(), (long) i);
        }
    }

    private static void follow(BaseConsumerContext consumer) throws Exception {
        try (IterableConsumer messages = consumer.iterate()) {
            for (int i = 1; i <= MANY; i++) {
                same(messages.nextMessage(PATIENCE).metaData().streamSequence(), (long) i);
            }
        }
    }

    static void pushToQueueGroup(Connection c) throws Exception {
        filled(c, stream("S", "s"), MANY);
        CountDownLatch all = new CountDownLatch(MANY);
        var dispatcher = c.createDispatcher();
        PushSubscribeOptions options = PushSubscribeOptions.builder()
                .configuration(ConsumerConfiguration.builder().durable("Q").deliverGroup("workers").build()).build();
        for (int i = 0; i < 3; i++) {
            c.jetStream().subscribe("s", "workers", dispatcher, message -> {
                message.ack();
                all.countDown();
            }, false, options);
        }
        check(all.await(PATIENCE.toSeconds(), TimeUnit.SECONDS), all.getCount() + " are missing");
    }

    static void workQueue(Connection c) throws Exception {
        filled(c, StreamConfiguration.builder().name("S").subjects("s").storageType(StorageType.Memory)
                .retentionPolicy(RetentionPolicy.WorkQueue).build(), 10);
        JetStreamSubscription sub = c.jetStream().subscribe("s", PullSubscribeOptions.builder().durable("D").build());
        for (Message message : sub.fetch(10, PATIENCE)) {
            message.ackSync(PATIENCE);
        }
        same(c.jetStreamManagement().getStreamInfo("S").getStreamState().getMsgCount(), 0L);
        ConsumerConfiguration second = ConsumerConfiguration.builder().durable("E").ackPolicy(AckPolicy.Explicit).build();
        same(failure(() -> c.jetStreamManagement().addOrUpdateConsumer("S", second)).getApiErrorCode(), 10099);
    }

    static void keyValue(Connection c) throws Exception {
        c.keyValueManagement().create(KeyValueConfiguration.builder("B").maxHistoryPerKey(5)
                .storageType(StorageType.Memory).build());
        KeyValue kv = c.keyValue("B");
        BlockingQueue<KeyValueEntry> seen = new LinkedBlockingQueue<>();
        try (var watch = kv.watchAll(new KeyValueWatcher() {
            @Override
            public void watch(KeyValueEntry entry) {
                seen.add(entry);
            }

            @Override
            public void endOfData() {}
        })) {
            long one = kv.put("k.1", "a");
            long two = kv.update("k.1", bytes("b"), one);
            same(failure(() -> kv.update("k.1", bytes("c"), one)).getApiErrorCode(), 10071);
            same(failure(() -> kv.create("k.1", bytes("c"))).getApiErrorCode(), 10071);
            same(kv.get("k.1").getValueAsString(), "b");
            same(kv.get("k.1", one).getValueAsString(), "a");
            same(two, one + 1);
            kv.put("k.2", 7);
            same(kv.history("k.1").size(), 2);
            kv.delete("k.1");
            check(kv.get("k.1") == null, "deleted, and still there");
            kv.purge("k.2");
            same(kv.history("k.2").size(), 1);
            check(kv.keys().isEmpty(), "keys " + kv.keys());
            KeyValueOperation[] operations = {KeyValueOperation.PUT, KeyValueOperation.PUT, KeyValueOperation.PUT,
                KeyValueOperation.DELETE, KeyValueOperation.PURGE};
            for (KeyValueOperation operation : operations) {
                KeyValueEntry entry = seen.poll(PATIENCE.toSeconds(), TimeUnit.SECONDS);
                check(entry != null && entry.getOperation() == operation, operation + " is missing");
            }
        }
    }

    static void objectStore(Connection c) throws Exception {
        c.objectStoreManagement().create(ObjectStoreConfiguration.builder("O").storageType(StorageType.Memory).build());
        ObjectStore store = c.objectStore("O");
        byte[] large = new byte[3_000_000];
        new Random(1).nextBytes(large);
        ObjectInfo put = store.put(ObjectMeta.objectName("large"), new ByteArrayInputStream(large));
        same(put.getSize(), (long) large.length);
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        store.get("large", out);
        check(Arrays.equals(out.toByteArray(), large), "other bytes");
        store.addLink("link", put);
        out.reset();
        store.get("link", out);
        same(out.size(), large.length);
        store.delete("large");
        check(store.getInfo("large") == null, "deleted, and still there");
        same(store.getList().size(), 1);
    }

    static void services(Connection c) throws Exception {
        ServiceEndpoint echo = ServiceEndpoint.builder().endpoint(new Endpoint("echo"))
                .handler(message -> message.respond(c, message.getData())).build();
        Service service = new ServiceBuilder().connection(c).name("E").version("1.0.0").addServiceEndpoint(echo).build();
        CompletableFuture<Boolean> running = service.startService();
        c.flush(PATIENCE);
        same(text(c.request("echo", bytes("hello"), PATIENCE)), "hello");
        check(text(c.request("$SRV.INFO.E", null, PATIENCE)).contains("\"echo\""), "no endpoint");
        check(text(c.request("$SRV.STATS.E", null, PATIENCE)).contains("\"num_requests\":1"), "not counted");
        service.stop();
        check(running.get(PATIENCE.toSeconds(), TimeUnit.SECONDS), "it did not stop");
    }

    private static StreamConfiguration stream(String name, String subject) {
        return StreamConfiguration.builder().name(name).subjects(subject).storageType(StorageType.File).build();
    }

    private static void filled(Connection c, StreamConfiguration stream, int messages) throws Exception {
        c.jetStreamManagement().addStream(stream);
        List<CompletableFuture<PublishAck>> acks = new ArrayList<>();
        for (int i = 1; i <= messages; i++) {
            acks.add(c.jetStream().publishAsync("s", bytes("m" + i)));
        }
        CompletableFuture.allOf(acks.toArray(CompletableFuture[]::new)).get(PATIENCE.toSeconds(), TimeUnit.SECONDS);
    }

    private interface Attempt {
        void run() throws Exception;
    }

    private static JetStreamApiException failure(Attempt attempt) throws Exception {
        try {
            attempt.run();
        } catch (JetStreamApiException refused) {
            return refused;
        }
        throw new AssertionError("not refused");
    }

    private static void check(boolean holds, String complaint) {
        if (!holds) {
            throw new AssertionError(complaint);
        }
    }

    private static void same(Object got, Object want) {
        check(got.equals(want), "got " + got + ", not " + want);
    }

    private static String text(Message message) {
        return new String(message.getData(), StandardCharsets.UTF_8);
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }
}
