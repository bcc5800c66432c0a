"""Subjects of python_smoke.py over TLS: every way in, with the certificates that lab.sh has made in a folder."""

import ssl

import nats

PATIENCE = 20


def _context(lab, authority="ca", shown=None, newest=None):
    context = ssl.create_default_context(cafile=f"{lab}/{authority}.pem")
    if shown:
        context.load_cert_chain(f"{lab}/{shown}.pem", f"{lab}/{shown}.key")
    if newest:
        context.maximum_version = newest
    return context


async def _speaks(server, context, **options):
    options |= {"tls": context} if context else {}
    async def overlook(_):
        """Who is refused would say so at length."""

    options |= {"error_cb": overlook}
    client = await nats.connect(server.url, allow_reconnect=False, connect_timeout=PATIENCE, **options)
    sub = await client.subscribe("ok.a")
    for size in [0, 1, 16384, 16385, 1 << 20]:
        await client.publish("ok.a", b"x" * size)
        assert len((await sub.next_msg(PATIENCE)).data) == size
    await client.close()


async def _refused(server, context):
    try:
        await _speaks(server, context)
    except Exception:  # noqa: BLE001 - each client library has its own
        return
    raise AssertionError("was let in")


def subjects(lab):
    """Configurations, and what is played with each."""
    files = f'cert_file: "{lab}/server.pem", key_file: "{lab}/server.key"'
    mutual = f'{files}, ca_file: "{lab}/ca.pem", verify: true'
    users = 'authorization { users: [ {user: "app@example.com", permissions: {publish: "ok.>", subscribe: "ok.>"}} ] }'
    knows = _context(lab)

    async def after_info(server):
        await _speaks(server, knows)
        await _speaks(server, _context(lab, newest=ssl.TLSVersion.TLSv1_2))
        await _refused(server, _context(lab, "ca2"))

    async def first(server):
        await _speaks(server, knows, tls_handshake_first=True)

    async def optional(server):
        await _speaks(server, knows)
        await _speaks(server, None)

    async def with_certificates(server):
        await _speaks(server, _context(lab, shown="app"))
        await _refused(server, knows)
        await _refused(server, _context(lab, shown="stranger"))

    async def mapped(server):
        await _speaks(server, _context(lab, shown="app"))
        await _refused(server, _context(lab, shown="second"))

    return [
        (f"tls {{ {files} }}", after_info),
        (f"tls {{ {files}, handshake_first: true }}", first),
        (f"tls {{ {files} }}\nallow_non_tls: true", optional),
        (f"tls {{ {mutual} }}", with_certificates),
        (f"tls {{ {mutual}, verify_and_map: true }}\n{users}", mapped),
    ]
