/**
 * An authenticator with passkeys (WebAuthn), in software. It makes what a browser would send, independently of the
 * service, with Node's own cryptography.
 */
import { createHash, generateKeyPairSync, type KeyObject, randomBytes, sign } from 'node:crypto';

type Creation = { challenge: string; host: string };
type Options = { origin: string; userVerified?: boolean; crossOrigin?: boolean };

const base64url = (bytes: Buffer) => bytes.toString('base64url');
const sha256 = (bytes: Buffer | string) => createHash('sha256').update(bytes).digest();

/** `ES256`, `Ed25519` or `RS256`, by its COSE number. */
export class Authenticator {
  readonly algorithm: number;
  readonly #privateKey: KeyObject;
  readonly #publicKey: KeyObject;
  readonly #credentialId = randomBytes(32);
  signCount = 0;

  constructor(algorithm: -7 | -8 | -257 = -7) {
    this.algorithm = algorithm;
    const pair =
      algorithm === -7
        ? generateKeyPairSync('ec', { namedCurve: 'prime256v1' })
        : algorithm === -8
          ? generateKeyPairSync('ed25519')
          : generateKeyPairSync('rsa', { modulusLength: 2048 });
    this.#privateKey = pair.privateKey;
    this.#publicKey = pair.publicKey;
  }

  create({ challenge, host }: Creation, options: Options) {
    const length = Buffer.alloc(2);
    length.writeUInt16BE(this.#credentialId.length);
    const credential = Buffer.concat([Buffer.alloc(16), length, this.#credentialId]);
    return {
      client_data: clientData('webauthn.create', challenge, options),
      authenticator_data: base64url(this.#data(host, 0x40, options, credential)),
      public_key: base64url(this.#publicKey.export({ type: 'spki', format: 'der' })),
      algorithm: this.algorithm,
    };
  }

  use({ challenge, host }: Creation, options: Options) {
    const data = this.#data(host, 0, options);
    const client = clientData('webauthn.get', challenge, options);
    const signed = Buffer.concat([data, sha256(Buffer.from(client, 'base64url'))]);
    const hash = this.algorithm === -8 ? null : 'sha256';
    return {
      credential_id: base64url(this.#credentialId),
      client_data: client,
      authenticator_data: base64url(data),
      signature: base64url(sign(hash, signed, this.#privateKey)),
    };
  }

  #data(host: string, flags: number, { userVerified = true }: Options, more = Buffer.alloc(0)) {
    const head = Buffer.alloc(5);
    head[0] = 0x01 | (userVerified ? 0x04 : 0) | flags;
    head.writeUInt32BE(this.signCount, 1);
    return Buffer.concat([sha256(host), head, more]);
  }
}

function clientData(type: string, challenge: string, { origin, crossOrigin }: Options): string {
  const text = JSON.stringify({ type, challenge, origin, crossOrigin: crossOrigin ?? false });
  return base64url(Buffer.from(text));
}
