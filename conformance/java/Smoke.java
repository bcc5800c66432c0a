import io.nats.client.Connection;
import io.nats.client.ConnectionListener;
import io.nats.client.Consumer;
import io.nats.client.Dispatcher;
import io.nats.client.ErrorListener;
import io.nats.client.Message;
import io.nats.client.Nats;
import io.nats.client.Options;
import io.nats.client.Subscription;
import io.nats.client.api.ServerInfo;
import io.nats.client.impl.Headers;
import io.nats.client.impl.NatsMessage;
import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Stream;

/**
 * Drives a server binary with the official Java client and says in how many cases the client met what it expects of a
 * server. It owns the servers that it starts and the list of cases; what it knows comes through the client.
 */
public final class Smoke {
    static final Duration PATIENCE = Duration.ofSeconds(5);
    private static final String USERS = """
            authorization { users: [
              {user: all, password: a}
              {user: few, password: b, permissions: {
                publish: {allow: ["ok.>", "_INBOX.>"], deny: "ok.not"}, subscribe: ["ok.>", "_INBOX.>", "work q"]}}
            ] }
            """;

    /** What a case does with its server. */
    interface Play {
        void on(Server server) throws Exception;
    }

    record Scene(String name, String config, Play play) {}

    private static final List<Scene> SCENES = Stream.concat(SecurityScenes.ALL.stream(), Stream.of(
            new Scene("publish and subscribe", "", Smoke::publishAndSubscribe),
            new Scene("payloads of many sizes", "", Smoke::payloads),
            new Scene("wildcards", "", Smoke::wildcards),
            new Scene("queue group", "", Smoke::queueGroup),
            new Scene("request and reply", "", server -> requestAndReply(server, builder -> builder)),
            new Scene("request in the old style", "", server -> requestAndReply(server, Options.Builder::oldRequestStyle)),
            new Scene("verbose and pedantic", "", server -> requestAndReply(server, b -> b.verbose().pedantic())),
            new Scene("headers", "", Smoke::headers),
            new Scene("no responders", "", Smoke::noResponders),
            new Scene("no echo", "", Smoke::noEcho),
            new Scene("auto-unsubscribe", "", Smoke::autoUnsubscribe),
            new Scene("drain", "", Smoke::drain),
            new Scene("flush and round trip", "", Smoke::roundTrip),
            new Scene("order of one publisher", "", Smoke::order),
            new Scene("what the server says of itself", "server_name: called-so\nmax_payload: 54321", Smoke::selfDescription),
            new Scene("reconnect after a restart", "", Smoke::reconnect),
            new Scene("lame duck", "", Smoke::lameDuck),
            new Scene("user and password", "authorization { user: derek, password: s3cret }", Smoke::userAndPassword),
            new Scene("token", "authorization { token: t0ken }", Smoke::token),
            new Scene("no_auth_user", "no_auth_user: all\n" + USERS, Smoke::noAuthUser),
            new Scene("permission to publish", USERS, Smoke::permissionToPublish),
            new Scene("permission to subscribe", USERS, Smoke::permissionToSubscribe),
            new Scene("permission for a queue", USERS, Smoke::permissionForQueue),
            new Scene("payload above the limit", "max_payload: 1024", Smoke::payloadLimit),
            new Scene("slow subscription", "", Smoke::slowSubscription),
            new Scene("too many subscriptions", "max_subscriptions: 2", Smoke::tooManySubscriptions),
            streams("streams are managed", JetStreamScenes::streamsAreManaged),
            streams("publishing into streams", JetStreamScenes::publishing),
            streams("pull with acknowledgements", JetStreamScenes::pullWithAcknowledgements),
            streams("nak, term and progress", JetStreamScenes::nakTermAndProgress),
            streams("consume without end", JetStreamScenes::consumeWithoutEnd),
            streams("ordered consumers", JetStreamScenes::orderedConsumers),
            streams("push to a queue group", JetStreamScenes::pushToQueueGroup),
            streams("work queue", JetStreamScenes::workQueue),
            streams("key-value", JetStreamScenes::keyValue),
            streams("object store", JetStreamScenes::objectStore),
            streams("services", JetStreamScenes::services))).toList();

    private static Scene streams(String name, JetStreamScenes.Scene scene) {
        return new Scene(name, "", server -> {
            server.restartWithJetStream();
            try (Connection connection = connect(server)) {
                scene.on(connection);
            }
        });
    }

    public static void main(String[] args) throws Exception {
        if (args.length != 1) {
            System.err.println("usage: java Smoke SERVER_BINARY");
            System.exit(2);
        }
        int failed = 0;
        for (Scene scene : SCENES) {
            try (Server server = new Server(args[0], scene.config())) {
                scene.play().on(server);
            } catch (Exception | AssertionError problem) {
                failed++;
                System.out.printf("FAIL %s: %s%n", scene.name(), problem);
            }
        }
        System.out.printf("%d passed, %d failed%n", SCENES.size() - failed, failed);
        System.exit(failed > 0 ? 1 : 0);
    }

    /** A server process on a loopback port that stays its own over restarts. */
    static final class Server implements AutoCloseable {
        private final String binary;
        final Path room = Files.createTempDirectory("conformance");
        final int port = freePort();
        /** A port for another listener: WSPORT in a configuration, in which ROOM stands for the server's folder. */
        final int webSocketPort = freePort();
        private Process child;
        private int starts;

        Server(String binary, String config) throws Exception {
            this.binary = binary;
            configure(config);
            try {
                start();
            } catch (Exception problem) {
                close();
                throw problem;
            }
        }

        void configure(String config) throws IOException {
            String text = config.replace("ROOM", room.toString()).replace("WSPORT", "" + webSocketPort);
            Files.writeString(room.resolve("server.conf"), text);
        }

        private static int freePort() throws IOException {
            try (ServerSocket listener = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
                return listener.getLocalPort();
            }
        }

        String url() {
            return "nats://127.0.0.1:" + port;
        }

        void start() throws Exception {
            child = new ProcessBuilder(binary, "-a", "127.0.0.1", "-p", "" + port,
                    "-c", room.resolve("server.conf").toString(), "-l", room.resolve("log").toString())
                    .redirectErrorStream(true).redirectOutput(ProcessBuilder.Redirect.DISCARD).start();
            awaitLog("Server is ready", ++starts);
        }

        /** Waits until the log has said it so many times. */
        void awaitLog(String text, int times) throws Exception {
            long deadline = System.nanoTime() + PATIENCE.toNanos();
            Path log = room.resolve("log");
            while (!Files.exists(log) || Files.readString(log).split(text, -1).length <= times) {
                check(System.nanoTime() < deadline, "no \"" + text + "\" in the log");
                Thread.sleep(10);
            }
        }

        /** Says text on a connection of its own and returns all that comes until the server hangs up. */
        String say(String text) throws IOException {
            try (Socket socket = new Socket("127.0.0.1", port)) {
                socket.setSoTimeout((int) PATIENCE.toMillis());
                socket.getOutputStream().write(text.getBytes(StandardCharsets.UTF_8));
                return new String(socket.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
            }
        }

        void restartWithJetStream() throws Exception {
            stop();
            configure("jetstream { store_dir: \"ROOM/js\" }");
            start();
        }

        void signal(String name) throws Exception {
            new ProcessBuilder("kill", "-" + name, "" + child.pid()).start().waitFor();
        }

        void stop() throws InterruptedException {
            child.destroyForcibly().waitFor();
        }

        @Override
        public void close() throws Exception {
            stop();
            try (var files = Files.walk(room)) {
                for (Path file : files.sorted(Comparator.reverseOrder()).toList()) {
                    Files.delete(file);
                }
            }
        }
    }

    /** Keeps what the client is told, for a case to wait for it. */
    static final class Ear implements ErrorListener, ConnectionListener {
        final BlockingQueue<String> errors = new LinkedBlockingQueue<>();
        final BlockingQueue<Events> events = new LinkedBlockingQueue<>();
        final CountDownLatch slow = new CountDownLatch(1);

        @Override
        public void errorOccurred(Connection connection, String error) {
            errors.add(error);
        }

        @Override
        public void slowConsumerDetected(Connection connection, Consumer consumer) {
            slow.countDown();
        }

        @Override
        public void connectionEvent(Connection connection, Events event) {
            events.add(event);
        }

        void awaitError(String text) throws InterruptedException {
            String error = errors.poll(PATIENCE.toSeconds(), TimeUnit.SECONDS);
            check(error != null && error.contains(text), "the error is " + error + ", not " + text);
        }

        void awaitEvent(Events wanted) throws InterruptedException {
            Events event;
            do {
                event = events.poll(PATIENCE.toSeconds(), TimeUnit.SECONDS);
                check(event != null, "no " + wanted);
            } while (event != wanted);
        }
    }

    interface Setting {
        Options.Builder on(Options.Builder builder);
    }

    static Connection connect(Server server, Ear ear, Setting setting) throws Exception {
        return connectTo(ear, builder -> setting.on(builder.server(server.url())));
    }

    /** A client of the server that the setting names. */
    static Connection connectTo(Ear ear, Setting setting) throws Exception {
        // The client sits this time out whenever a connection breaks while it is being made.
        Options.Builder builder = Options.builder().connectionTimeout(Duration.ofSeconds(1))
                .errorListener(ear).connectionListener(ear).reconnectWait(Duration.ofMillis(50))
                .maxReconnects(-1);
        return Nats.connect(setting.on(builder).build());
    }

    private static Connection connect(Server server) throws Exception {
        return connect(server, new Ear(), builder -> builder);
    }

    static void check(boolean holds, String complaint) {
        if (!holds) {
            throw new AssertionError(complaint);
        }
    }

    static void same(Object got, Object want) {
        check(got.equals(want), "got " + got + ", not " + want);
    }

    static Message next(Subscription sub) throws InterruptedException {
        Message message = sub.nextMessage(PATIENCE);
        check(message != null, "no message on " + sub.getSubject());
        return message;
    }

    static String text(Message message) {
        return new String(message.getData(), StandardCharsets.UTF_8);
    }

    static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    /** Counts what has arrived already: after a flush that is all that was sent before. */
    private static int count(Subscription sub) throws InterruptedException {
        int count = 0;
        while (sub.nextMessage(Duration.ofMillis(50)) != null) {
            count++;
        }
        return count;
    }

    private static void publishAndSubscribe(Server server) throws Exception {
        try (Connection c = connect(server)) {
            Subscription sub = c.subscribe("foo");
            c.publish("foo", "back", bytes("hello"));
            Message m = next(sub);
            same(List.of(m.getSubject(), m.getReplyTo(), text(m)), List.of("foo", "back", "hello"));
        }
    }

    private static void payloads(Server server) throws Exception {
        try (Connection c = connect(server)) {
            Subscription sub = c.subscribe("size");
            for (int size : new int[] {0, 1, 511, 4096, 65535, 65537, 1 << 20}) {
                byte[] payload = new byte[size];
                Arrays.fill(payload, (byte) '\n');
                c.publish("size", payload);
                check(Arrays.equals(next(sub).getData(), payload), size + " bytes");
            }
        }
    }

    private static void wildcards(Server server) throws Exception {
        try (Connection c = connect(server)) {
            Map<String, Integer> wants = Map.of("a.*", 2, "a.>", 3, "*.b", 2, ">", 5, "a.b", 1, "*", 1, "*.*.c", 1);
            Map<String, Subscription> subs = new LinkedHashMap<>();
            wants.keySet().forEach(filter -> subs.put(filter, c.subscribe(filter)));
            for (String subject : List.of("a", "a.b", "a.c", "a.b.c", "x.b")) {
                c.publish(subject, null);
            }
            c.flush(PATIENCE);
            for (var entry : subs.entrySet()) {
                int got = count(entry.getValue());
                check(got == wants.get(entry.getKey()), entry.getKey() + " got " + got);
            }
        }
    }

    private static void queueGroup(Server server) throws Exception {
        try (Connection c = connect(server)) {
            List<Subscription> members = new ArrayList<>();
            for (int i = 0; i < 4; i++) {
                members.add(c.subscribe("work", "q"));
            }
            Subscription plain = c.subscribe("work");
            for (int i = 0; i < 400; i++) {
                c.publish("work", null);
            }
            c.flush(PATIENCE);
            int total = 0;
            for (Subscription member : members) {
                int got = count(member);
                check(got > 0, "a member got nothing");
                total += got;
            }
            same(List.of(total, count(plain)), List.of(400, 400));
        }
    }

    private static void requestAndReply(Server server, Setting setting) throws Exception {
        try (Connection c = connect(server, new Ear(), setting)) {
            Dispatcher service = c.createDispatcher(m -> c.publish(m.getReplyTo(), bytes(text(m) + text(m))));
            service.subscribe("double");
            for (String question : List.of("ab", "xyz")) {
                Message answer = c.request("double", bytes(question), PATIENCE);
                check(answer != null, "no answer");
                same(text(answer), question + question);
            }
        }
    }

    private static void headers(Server server) throws Exception {
        try (Connection c = connect(server)) {
            Subscription sub = c.subscribe("h");
            Headers sent = new Headers().add("Colour", "red", "blue").add("Other", "x");
            c.publish(NatsMessage.builder().subject("h").headers(sent).data("body").build());
            Message got = next(sub);
            same(got.getHeaders(), sent);
            same(text(got), "body");
        }
    }

    private static void noResponders(Server server) throws Exception {
        try (Connection c = connect(server, new Ear(), b -> b.reportNoResponders())) {
            try {
                c.request("nobody", null).get(PATIENCE.toSeconds(), TimeUnit.SECONDS);
                throw new AssertionError("somebody answered");
            } catch (java.util.concurrent.ExecutionException refused) {
                check(refused.getCause().getMessage().contains("503"), "the reason is " + refused.getCause());
            }
        }
    }

    private static void noEcho(Server server) throws Exception {
        try (Connection c = connect(server, new Ear(), Options.Builder::noEcho)) {
            Subscription own = c.subscribe("echo");
            c.publish("echo", null);
            c.flush(PATIENCE);
            same(count(own), 0);
        }
    }

    private static void autoUnsubscribe(Server server) throws Exception {
        try (Connection c = connect(server)) {
            Subscription some = c.subscribe("some");
            some.unsubscribe(10);
            for (int i = 0; i < 25; i++) {
                c.publish("some", null);
            }
            c.flush(PATIENCE);
            int got = 0;
            while (got < 10 && some.nextMessage(PATIENCE) != null) {
                got++;
            }
            same(got, 10);
            check(!some.isActive(), "still active");
        }
    }

    private static void drain(Server server) throws Exception {
        try (Connection sender = connect(server)) {
            Connection c = connect(server);
            AtomicInteger handled = new AtomicInteger();
            c.createDispatcher(m -> handled.incrementAndGet()).subscribe("slow");
            c.flush(PATIENCE);
            for (int i = 0; i < 200; i++) {
                sender.publish("slow", null);
            }
            sender.flush(PATIENCE);
            check(c.drain(PATIENCE).get(PATIENCE.toSeconds(), TimeUnit.SECONDS), "the drain did not end well");
            same(handled.get(), 200);
        }
    }

    private static void roundTrip(Server server) throws Exception {
        try (Connection c = connect(server)) {
            for (int i = 0; i < 100; i++) {
                c.flush(PATIENCE);
            }
            check(c.RTT().compareTo(Duration.ofSeconds(1)) < 0, "a slow round trip");
        }
    }

    private static void order(Server server) throws Exception {
        try (Connection c = connect(server)) {
            Subscription sub = c.subscribe("n.*");
            for (int i = 0; i < 50_000; i++) {
                c.publish("n.x", bytes("" + i));
            }
            for (int i = 0; i < 50_000; i++) {
                same(text(next(sub)), "" + i);
            }
        }
    }

    private static void selfDescription(Server server) throws Exception {
        try (Connection c = connect(server)) {
            ServerInfo info = c.getServerInfo();
            check(info.getServerId().matches("N[A-Z2-7]{55}"), "id " + info.getServerId());
            check(info.getVersion().startsWith("2."), "version " + info.getVersion());
            check(info.isHeadersSupported() && !info.isAuthRequired() && !info.isTLSRequired(), "flags of " + info);
            same(List.of(info.getServerName(), info.getMaxPayload(), info.getClientIp(), info.getPort()),
                    List.of("called-so", 54321L, "127.0.0.1", server.port));
        }
    }

    private static void reconnect(Server server) throws Exception {
        Ear ear = new Ear();
        try (Connection c = connect(server, ear, builder -> builder)) {
            Subscription plain = c.subscribe("again.*");
            Subscription queue = c.subscribe("again.*", "q");
            c.flush(PATIENCE);
            server.stop();
            ear.awaitEvent(ConnectionListener.Events.DISCONNECTED);
            server.start();
            // "Reconnected" comes before the client has said again what it wants.
            ear.awaitEvent(ConnectionListener.Events.RESUBSCRIBED);
            c.publish("again.x", null);
            c.flush(PATIENCE);
            same(List.of(count(plain), count(queue)), List.of(1, 1));
        }
    }

    private static void lameDuck(Server server) throws Exception {
        Ear ear = new Ear();
        try (Connection c = connect(server, ear, builder -> builder)) {
            server.signal("USR2");
            ear.awaitEvent(ConnectionListener.Events.LAME_DUCK);
            c.flush(PATIENCE);
        }
    }

    private static void admits(Server server, boolean wanted, Setting setting) throws Exception {
        boolean admitted = true;
        try (Connection c = connect(server, new Ear(), b -> setting.on(b.noReconnect()))) {
            c.flush(PATIENCE);
        } catch (io.nats.client.AuthenticationException refused) {
            admitted = false;
        }
        same(admitted, wanted);
    }

    private static void userAndPassword(Server server) throws Exception {
        admits(server, true, b -> b.userInfo("derek", "s3cret"));
        admits(server, false, b -> b.userInfo("derek", "guess"));
        admits(server, false, b -> b.userInfo("other", "s3cret"));
        admits(server, false, b -> b);
    }

    private static void token(Server server) throws Exception {
        admits(server, true, b -> b.token("t0ken".toCharArray()));
        admits(server, false, b -> b.token("other".toCharArray()));
        admits(server, false, b -> b);
    }

    private static void noAuthUser(Server server) throws Exception {
        admits(server, true, b -> b);
        admits(server, true, b -> b.userInfo("few", "b"));
        admits(server, false, b -> b.userInfo("few", "wrong"));
    }

    private static void permissionToPublish(Server server) throws Exception {
        Ear ear = new Ear();
        try (Connection c = connect(server, ear, b -> b.userInfo("few", "b"))) {
            for (String subject : List.of("ok.yes", "ok.not", "other")) {
                c.publish(subject, null);
            }
            ear.awaitError("Permissions Violation for Publish to \"ok.not\"");
            ear.awaitError("Permissions Violation for Publish to \"other\"");
            c.flush(PATIENCE);
        }
    }

    private static void permissionToSubscribe(Server server) throws Exception {
        Ear ear = new Ear();
        try (Connection c = connect(server, ear, b -> b.userInfo("few", "b"))) {
            c.subscribe("secret");
            ear.awaitError("Permissions Violation for Subscription to \"secret\"");
            Subscription allowed = c.subscribe("ok.*");
            c.publish("ok.yes", null);
            next(allowed);
        }
    }

    private static void permissionForQueue(Server server) throws Exception {
        Ear ear = new Ear();
        try (Connection c = connect(server, ear, b -> b.userInfo("few", "b"))) {
            c.subscribe("work", "q");
            c.subscribe("work", "other");
            ear.awaitError("Permissions Violation for Subscription to \"work\" using queue \"other\"");
            check(ear.errors.isEmpty(), "also told " + ear.errors);
        }
    }

    private static void payloadLimit(Server server) throws Exception {
        try (Connection c = connect(server)) {
            same(c.getMaxPayload(), 1024L);
            c.publish("big", new byte[1024]);
            c.flush(PATIENCE);
        }
        String heard = server.say("CONNECT {}\r\nPUB big 1025\r\n");
        check(heard.contains("-ERR 'Maximum Payload Violation'"), "it said " + heard);
    }

    private static void slowSubscription(Server server) throws Exception {
        Ear ear = new Ear();
        try (Connection c = connect(server, ear, builder -> builder)) {
            Subscription sub = c.subscribe("flood");
            sub.setPendingLimits(10, 1 << 20);
            for (int i = 0; i < 50; i++) {
                c.publish("flood", null);
            }
            c.flush(PATIENCE);
            check(ear.slow.await(PATIENCE.toSeconds(), TimeUnit.SECONDS), "nobody was told");
            same(List.of(sub.getDroppedCount(), count(sub)), List.of(40L, 10));
        }
    }

    private static void tooManySubscriptions(Server server) throws Exception {
        Ear ear = new Ear();
        try (Connection c = connect(server, ear, builder -> builder)) {
            for (int i = 0; i < 3; i++) {
                c.subscribe("many");
            }
            ear.awaitError("maximum subscriptions exceeded");
            c.flush(PATIENCE);
        }
    }
}
