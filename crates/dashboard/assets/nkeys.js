// Signs the server's nonce with the seed of a user. The seed stays in this page.

const LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
// What stands before the 32 bytes of a private Ed25519 key in PKCS #8.
const PKCS8 = [0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 4, 0x22, 4, 0x20];
const SEED = 18 << 3;
const USER = 20 << 3;

function decode(text) {
  const bytes = [];
  let bits = 0;
  let held = 0;
  for (const letter of text) {
    const value = LETTERS.indexOf(letter);
    if (value < 0) throw new Error("A seed has letters and digits only.");
    held = (held << 5) | value;
    bits += 5;
    if (bits >= 8) {
      bits -= 8;
      bytes.push((held >> bits) & 0xff);
      held &= (1 << bits) - 1;
    }
  }
  return bytes;
}

function encode(bytes) {
  let text = "";
  let bits = 0;
  let held = 0;
  for (const byte of bytes) {
    held = (held << 8) | byte;
    bits += 8;
    while (bits >= 5) {
      bits -= 5;
      text += LETTERS[(held >> bits) & 31];
      held &= (1 << bits) - 1;
    }
  }
  return bits > 0 ? text + LETTERS[(held << (5 - bits)) & 31] : text;
}

function checksum(bytes) {
  let crc = 0;
  for (const byte of bytes) {
    crc ^= byte << 8;
    for (let bit = 0; bit < 8; bit += 1) crc = crc & 0x8000 ? ((crc << 1) ^ 0x1021) & 0xffff : (crc << 1) & 0xffff;
  }
  return crc;
}

function base64(bytes, isUrl) {
  const text = btoa(String.fromCharCode(...bytes));
  return isUrl ? text.replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "") : text;
}

// The seed and the token, if there is one, in what was pasted: a seed, or a credentials file.
export function credentials(text) {
  const block = (kind) => new RegExp(`-----BEGIN ${kind}-----\\s+([^\\s-][^\\s]*)\\s`).exec(text)?.[1];
  const seed = block("USER NKEY SEED") ?? /^\s*(SU[A-Z2-7]+)\s*$/.exec(text)?.[1];
  if (!seed) throw new Error("This is neither a user's seed (SU…) nor a credentials file.");
  return { seed, jwt: block("NATS USER JWT") };
}

// Fields of CONNECT that prove the possession of a seed.
export async function sign({ seed, jwt }, nonce) {
  if (!nonce) throw new Error("This server asks for no signature.");
  const bytes = decode(seed);
  const body = bytes.slice(0, -2);
  if (bytes.length !== 36 || checksum(body) !== (bytes.at(-2) | (bytes.at(-1) << 8))) {
    throw new Error("The seed is damaged: its checksum does not match.");
  }
  if ((body[0] & 0xf8) !== SEED || (((body[0] & 7) << 5) | (body[1] >> 3)) !== USER) {
    throw new Error("This is not the seed of a user.");
  }
  if (!globalThis.crypto?.subtle) {
    throw new Error("Browsers sign on pages over HTTPS, or from localhost, only.");
  }
  const der = new Uint8Array([...PKCS8, ...body.slice(2)]);
  const key = await crypto.subtle.importKey("pkcs8", der, { name: "Ed25519" }, true, ["sign"]);
  const signature = await crypto.subtle.sign({ name: "Ed25519" }, key, new TextEncoder().encode(nonce));
  const sig = base64(new Uint8Array(signature), true);
  if (jwt) return { jwt, sig };
  const { x } = await crypto.subtle.exportKey("jwk", key);
  const point = atob(x.replaceAll("-", "+").replaceAll("_", "/"));
  const shown = [USER, ...[...point].map((letter) => letter.charCodeAt(0))];
  const crc = checksum(shown);
  return { nkey: encode([...shown, crc & 0xff, crc >> 8]), sig };
}
