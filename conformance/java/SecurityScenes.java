import io.nats.client.Connection;
import io.nats.client.ConnectionListener.Events;
import io.nats.client.JetStream;
import io.nats.client.JetStreamSubscription;
import io.nats.client.Message;
import io.nats.client.PullSubscribeOptions;
import io.nats.client.Subscription;
import io.nats.client.api.StorageType;
import io.nats.client.api.StreamConfiguration;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyStore;
import java.security.cert.CertificateFactory;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;
import javax.net.ssl.KeyManagerFactory;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManagerFactory;

/** Cases over TLS and WebSocket. The certificates are those of `lab.sh`, in the folder that the property `lab` names. */
final class SecurityScenes {
    private static final Path LAB = Path.of(System.getProperty("lab"));
    private static final char[] PASSWORD = "secret".toCharArray();

    private static final String FILES = "cert_file: \"" + LAB + "/server.pem\", key_file: \"" + LAB + "/server.key\", ";
    private static final String MUTUAL = FILES + "ca_file: \"" + LAB + "/ca.pem\", verify: true, ";
    private static final String MAPPED = FILES + "ca_file: \"" + LAB + "/ca.pem\", verify_and_map: true, ";
    private static final String USERS = """
            authorization { users: [
              {user: "CN=nobody-here"}
              {user: "app@example.com", permissions: {publish: "ok.>", subscribe: ["ok.>", "_INBOX.>"]}}
            ] }
            """;

    static final List<Smoke.Scene> ALL = List.of(
            scene("TLS after INFO", tls(FILES), s -> speaks(s, "tls", ctx("ca", null))),
            scene("TLS that the server asks for", tls(FILES), s -> speaks(s, "nats", ctx("ca", null))),
            scene("an authority that nobody knows", tls(FILES), SecurityScenes::unknownAuthority),
            scene("no TLS where it is required", tls(FILES), s -> refused(plain(s))),
            scene("key stores in files", tls(MUTUAL), SecurityScenes::storesInFiles),
            scene("any server (opentls)", tls(FILES), s -> speaksAs(b -> b.server("opentls://127.0.0.1:" + s.port))),
            scene("TLS first", tls(FILES + "handshake_first: true"), SecurityScenes::first),
            scene("TLS first or not: auto", tls(FILES + "handshake_first: auto"), SecurityScenes::either),
            scene("TLS first or not: 300ms", tls(FILES + "handshake_first: \"300ms\""), SecurityScenes::either),
            scene("TLS or not", tls(FILES) + "allow_non_tls: true", SecurityScenes::optional),
            scene("mutual TLS", tls(MUTUAL), SecurityScenes::mutual),
            scene("mutual TLS, first", tls(MUTUAL + "handshake_first: true"), SecurityScenes::mutualFirst),
            scene("users by certificate", tls(MAPPED) + USERS, SecurityScenes::mapped),
            scene("pinned keys", tls(MUTUAL + "pinned_certs: [\"PINAPP\"]"), SecurityScenes::pinned),
            scene("TLS 1.2", tls(FILES), s -> speaks(s, "tls", ctx("TLSv1.2", "ca", null))),
            scene("TLS 1.3 at least", tls(FILES + "min_version: \"1.3\""), SecurityScenes::atLeast13),
            scene("a suite of TLS 1.2", tls(FILES + "cipher_suites: [TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384]"),
                    s -> speaks(s, "tls", ctx("TLSv1.2", "ca", null))),
            scene("several certificates", "tls { certs: [ {" + FILES.replace("server.", "other.") + "}, {" + FILES + "} ] }",
                    s -> speaks(s, "tls", ctx("ca", null))),
            scene("a new certificate", tls(FILES), SecurityScenes::renewed),
            scene("a restart under TLS", tls(FILES), SecurityScenes::reconnects),
            scene("payloads over TLS", tls(FILES), s -> payloads(s, "tls://127.0.0.1:" + s.port)),
            scene("streams over TLS", tls(FILES) + "jetstream { store_dir: \"ROOM/js\" }",
                    s -> streams(s, "tls://127.0.0.1:" + s.port)),
            scene("a rate of handshakes", tls(FILES + "connection_rate_limit: 1"), SecurityScenes::rate),
            scene("WebSocket", "websocket { port: WSPORT, no_tls: true }", s -> speaksAs(b -> b.server(ws(s)))),
            scene("WebSocket, compression on", "websocket { port: WSPORT, no_tls: true, compression: true }",
                    s -> payloads(s, ws(s))),
            scene("WebSocket over TLS", websocket(FILES), s -> speaksAs(b -> b.server(wss(s)).sslContext(ctx("ca", null)))),
            scene("mutual TLS under WebSocket", websocket(MUTUAL), SecurityScenes::mutualWebSocket),
            scene("users by certificate under WebSocket", websocket(MAPPED) + USERS, SecurityScenes::mappedWebSocket),
            scene("payloads over secure WebSocket", websocket(FILES), s -> payloads(s, wss(s))),
            scene("streams over secure WebSocket", websocket(FILES) + "jetstream { store_dir: \"ROOM/js\" }",
                    s -> streams(s, wss(s))),
            scene("users over WebSocket", "websocket { port: WSPORT, no_tls: true }\nauthorization { user: u, password: p }",
                    s -> speaksAs(b -> b.server(ws(s)).userInfo("u", "p"))),
            scene("cookies", "websocket { port: WSPORT, no_tls: true, user_cookie: who, pass_cookie: what }\n"
                    + "authorization { user: u, password: p }", SecurityScenes::cookies),
            scene("ways in", "websocket { port: WSPORT, no_tls: true }\nauthorization { users: [ "
                    + "{user: w, password: p, allowed_connection_types: [WEBSOCKET]}, {user: s, password: p, "
                    + "allowed_connection_types: [STANDARD]} ] }", SecurityScenes::waysIn),
            scene("a restart under WebSocket", websocket(FILES), SecurityScenes::reconnectsWebSocket));

    private SecurityScenes() {}

    private static Smoke.Scene scene(String name, String config, Smoke.Play play) {
        return new Smoke.Scene(name, config.replace("PINAPP", pin("app")), play);
    }

    private static String tls(String block) {
        return "tls { " + block + " }\n";
    }

    private static String websocket(String block) {
        return "websocket { port: WSPORT, tls { " + block + " } }\n";
    }

    private static String ws(Smoke.Server server) {
        return "ws://127.0.0.1:" + server.webSocketPort;
    }

    private static String wss(Smoke.Server server) {
        return "wss://127.0.0.1:" + server.webSocketPort;
    }

    // What clients have

    private static String pin(String name) {
        try {
            return Files.readString(LAB.resolve(name + ".pin")).strip();
        } catch (IOException absent) {
            throw new IllegalStateException(absent);
        }
    }

    private static KeyStore trust(String authority) throws Exception {
        KeyStore store = KeyStore.getInstance("PKCS12");
        store.load(null, null);
        try (InputStream file = Files.newInputStream(LAB.resolve(authority + ".pem"))) {
            store.setCertificateEntry(authority, CertificateFactory.getInstance("X.509").generateCertificate(file));
        }
        return store;
    }

    private static SSLContext ctx(String authority, String shown) {
        return ctx("TLS", authority, shown);
    }

    private static SSLContext ctx(String version, String authority, String shown) {
        try {
            TrustManagerFactory trusted = TrustManagerFactory.getInstance("PKIX");
            trusted.init(trust(authority));
            KeyManagerFactory keys = null;
            if (shown != null) {
                KeyStore store = KeyStore.getInstance("PKCS12");
                try (InputStream file = Files.newInputStream(LAB.resolve(shown + ".p12"))) {
                    store.load(file, PASSWORD);
                }
                keys = KeyManagerFactory.getInstance("PKIX");
                keys.init(store, PASSWORD);
            }
            SSLContext context = SSLContext.getInstance(version);
            context.init(keys == null ? null : keys.getKeyManagers(), trusted.getTrustManagers(), null);
            return context;
        } catch (Exception problem) {
            throw new IllegalStateException(problem);
        }
    }

    // What they do

    /** A client that is let in hears itself and is answered. */
    private static void speaksAs(Smoke.Setting setting) throws Exception {
        try (Connection c = connect(new Smoke.Ear(), setting)) {
            speaks(c, "ok.a");
        }
    }

    private static void speaks(Connection c, String subject) throws Exception {
        Subscription sub = c.subscribe(subject);
        c.publish(subject, Smoke.bytes("hello"));
        Smoke.same(Smoke.text(Smoke.next(sub)), "hello");
        c.createDispatcher(m -> c.publish(m.getReplyTo(), m.getData())).subscribe(subject + ".ask");
        c.flush(Smoke.PATIENCE);
        Message answer = c.request(subject + ".ask", Smoke.bytes("why"), Smoke.PATIENCE);
        Smoke.check(answer != null, "no answer");
        Smoke.same(Smoke.text(answer), "why");
    }

    private static void speaks(Smoke.Server server, String scheme, SSLContext context) throws Exception {
        speaksAs(b -> b.server(scheme + "://127.0.0.1:" + server.port).sslContext(context));
    }

    /** A client that is not let in is told so, and soon; somebody else notices nothing. */
    private static String refused(Smoke.Setting setting) throws Exception {
        try (Connection c = connect(new Smoke.Ear(), b -> setting.on(b.connectionTimeout(Duration.ofSeconds(2))).maxReconnects(0))) {
            throw new AssertionError("was let in: " + c.getStatus());
        } catch (IOException expected) {
            return "" + expected.getMessage();
        }
    }

    private static Smoke.Setting over(Smoke.Server server, SSLContext context) {
        return b -> b.server("tls://127.0.0.1:" + server.port).sslContext(context);
    }

    /** With time for a handshake on a machine that is busy. */
    private static Connection connect(Smoke.Ear ear, Smoke.Setting setting) throws Exception {
        return Smoke.connectTo(ear, b -> setting.on(b.connectionTimeout(Duration.ofSeconds(10))));
    }

    private static Smoke.Setting plain(Smoke.Server server) {
        return b -> b.server(server.url());
    }

    private static void unknownAuthority(Smoke.Server server) throws Exception {
        refused(over(server, ctx("ca2", null)));
        speaks(server, "tls", ctx("ca", null));
    }

    private static void storesInFiles(Smoke.Server server) throws Exception {
        Path trusted = server.room.resolve("trust.p12");
        try (OutputStream file = Files.newOutputStream(trusted)) {
            trust("ca").store(file, PASSWORD);
        }
        speaksAs(b -> b.server("tls://127.0.0.1:" + server.port)
                .keystorePath(LAB.resolve("app.p12").toString()).keystorePassword(PASSWORD)
                .truststorePath(trusted.toString()).truststorePassword(PASSWORD));
    }

    private static void first(Smoke.Server server) throws Exception {
        speaksAs(b -> over(server, ctx("ca", null)).on(b).tlsFirst());
        refused(b -> over(server, ctx("ca", null)).on(b).connectionTimeout(Duration.ofMillis(500)));
    }

    private static void either(Smoke.Server server) throws Exception {
        // A machine that is busy may take longer than the server waits; not every time.
        for (int tries = 5; ; tries--) {
            try {
                speaksAs(b -> over(server, ctx("ca", null)).on(b).tlsFirst());
                break;
            } catch (IOException late) {
                Smoke.check(tries > 1, late.toString());
            }
        }
        speaks(server, "tls", ctx("ca", null));
    }

    private static void optional(Smoke.Server server) throws Exception {
        speaks(server, "tls", ctx("ca", null));
        speaksAs(plain(server));
    }

    private static void mutual(Smoke.Server server) throws Exception {
        speaks(server, "tls", ctx("ca", "app"));
        speaks(server, "tls", ctx("TLSv1.2", "ca", "app"));
        refused(over(server, ctx("ca", null)));
        refused(over(server, ctx("ca", "stranger")));
        refused(over(server, ctx("TLSv1.2", "ca", null)));
        speaks(server, "tls", ctx("ca", "second"));
    }

    private static void mutualFirst(Smoke.Server server) throws Exception {
        speaksAs(b -> over(server, ctx("ca", "app")).on(b).tlsFirst());
        refused(b -> over(server, ctx("ca", "stranger")).on(b).tlsFirst());
    }

    private static void mapped(Smoke.Server server) throws Exception {
        mapped(over(server, ctx("ca", "app")));
        String why = refused(over(server, ctx("ca", "second")));
        Smoke.check(why.contains("uthorization") || why.contains("uthentication"), why);
    }

    private static void mapped(Smoke.Setting setting) throws Exception {
        Smoke.Ear ear = new Smoke.Ear();
        try (Connection c = connect(ear, setting)) {
            Subscription sub = c.subscribe("ok.a");
            c.publish("ok.a", Smoke.bytes("mine"));
            Smoke.same(Smoke.text(Smoke.next(sub)), "mine");
            c.publish("other", null);
            ear.awaitError("Permissions Violation for Publish to \"other\"");
        }
    }

    private static void pinned(Smoke.Server server) throws Exception {
        speaks(server, "tls", ctx("ca", "app"));
        refused(over(server, ctx("ca", "second")));
    }

    private static void atLeast13(Smoke.Server server) throws Exception {
        refused(over(server, ctx("TLSv1.2", "ca", null)));
        speaks(server, "tls", ctx("TLSv1.3", "ca", null));
    }

    private static void renewed(Smoke.Server server) throws Exception {
        server.stop();
        server.configure(tls(FILES.replace(LAB.toString(), "ROOM")));
        put(server, "server");
        server.start();
        speaks(server, "tls", ctx("ca", null));
        put(server, "server2");
        server.signal("HUP");
        server.awaitLog("Reloaded server configuration", 1);
        speaks(server, "tls", ctx("ca2", null));
        refused(over(server, ctx("ca", null)));
    }

    private static void put(Smoke.Server server, String name) throws IOException {
        for (String end : List.of("pem", "key")) {
            Files.write(server.room.resolve("server." + end), Files.readAllBytes(LAB.resolve(name + "." + end)));
        }
    }

    private static void reconnects(Smoke.Server server) throws Exception {
        reconnects(server, over(server, ctx("ca", null)));
    }

    private static void reconnectsWebSocket(Smoke.Server server) throws Exception {
        reconnects(server, b -> b.server(wss(server)).sslContext(ctx("ca", null)));
    }

    private static void reconnects(Smoke.Server server, Smoke.Setting setting) throws Exception {
        Smoke.Ear ear = new Smoke.Ear();
        try (Connection c = connect(ear, setting)) {
            Subscription sub = c.subscribe("foo");
            c.flush(Smoke.PATIENCE);
            server.stop();
            ear.awaitEvent(Events.DISCONNECTED);
            server.start();
            ear.awaitEvent(Events.RECONNECTED);
            c.flush(Smoke.PATIENCE);
            c.publish("foo", Smoke.bytes("again"));
            Smoke.same(Smoke.text(Smoke.next(sub)), "again");
        }
    }

    private static void payloads(Smoke.Server server, String url) throws Exception {
        Smoke.Setting setting = b -> url.startsWith("ws:") ? b.server(url) : b.server(url).sslContext(ctx("ca", null));
        try (Connection c = connect(new Smoke.Ear(), setting)) {
            Subscription sub = c.subscribe("size");
            for (int size : new int[] {0, 1, 125, 126, 4096, 16384, 16385, 65535, 65536, 1 << 20}) {
                byte[] payload = new byte[size];
                Arrays.fill(payload, (byte) '\n');
                c.publish("size", payload);
                Smoke.check(Arrays.equals(Smoke.next(sub).getData(), payload), size + " bytes");
            }
            for (int i = 0; i < 5000; i++) {
                c.publish("size", Smoke.bytes("" + i));
            }
            for (int i = 0; i < 5000; i++) {
                Smoke.same(Smoke.text(Smoke.next(sub)), "" + i);
            }
        }
    }

    private static void streams(Smoke.Server server, String url) throws Exception {
        try (Connection c = connect(new Smoke.Ear(), b -> b.server(url).sslContext(ctx("ca", null)))) {
            c.jetStreamManagement().addStream(StreamConfiguration.builder().name("S").subjects("s.>")
                    .storageType(StorageType.File).build());
            JetStream js = c.jetStream();
            for (int i = 0; i < 200; i++) {
                Smoke.same(js.publish("s.a", Smoke.bytes("" + i)).getSeqno(), i + 1L);
            }
            JetStreamSubscription sub = js.subscribe("s.>", PullSubscribeOptions.builder().durable("D").build());
            int got = 0;
            while (got < 200) {
                List<Message> batch = sub.fetch(50, Smoke.PATIENCE);
                Smoke.check(!batch.isEmpty(), "only " + got);
                for (Message m : batch) {
                    Smoke.same(Smoke.text(m), "" + got++);
                    m.ack();
                }
            }
        }
    }

    private static void rate(Smoke.Server server) throws Exception {
        // A second may end in between; it does not end again and again.
        AtomicInteger let = new AtomicInteger();
        List<Thread> clients = new ArrayList<>();
        for (int i = 0; i < 12; i++) {
            clients.add(new Thread(() -> {
                try (Connection c = connect(new Smoke.Ear(), b -> over(server, ctx("ca", null)).on(b).maxReconnects(0))) {
                    let.incrementAndGet();
                } catch (Exception expected) {
                    // The others are told, or see their connection end.
                }
            }));
        }
        clients.forEach(Thread::start);
        for (Thread client : clients) {
            client.join();
        }
        Smoke.check(let.get() >= 1 && let.get() < 12, let + " were let in");
    }

    private static void mutualWebSocket(Smoke.Server server) throws Exception {
        speaksAs(b -> b.server(wss(server)).sslContext(ctx("ca", "app")));
        refused(b -> b.server(wss(server)).sslContext(ctx("ca", null)));
        refused(b -> b.server(wss(server)).sslContext(ctx("ca", "stranger")));
    }

    private static void mappedWebSocket(Smoke.Server server) throws Exception {
        mapped(b -> b.server(wss(server)).sslContext(ctx("ca", "app")));
        refused(b -> b.server(wss(server)).sslContext(ctx("ca", "second")));
        // Who comes another way has no certificate, and no password helps.
        refused(b -> plain(server).on(b).userInfo("app@example.com", ""));
    }

    private static void cookies(Smoke.Server server) throws Exception {
        speaksAs(b -> b.server(ws(server)).httpRequestInterceptor(r -> r.getHeaders().add("Cookie", "who=u; what=p")));
        refused(b -> b.server(ws(server)).httpRequestInterceptor(r -> r.getHeaders().add("Cookie", "who=u; what=q")));
    }

    private static void waysIn(Smoke.Server server) throws Exception {
        speaksAs(b -> b.server(ws(server)).userInfo("w", "p"));
        refused(b -> b.server(ws(server)).userInfo("s", "p"));
        speaksAs(b -> plain(server).on(b).userInfo("s", "p"));
        refused(b -> plain(server).on(b).userInfo("w", "p"));
    }
}
