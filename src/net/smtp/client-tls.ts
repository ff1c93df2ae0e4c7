/**
 * TLS for SMTP: STARTTLS (RFC 3207) and TLS from the first byte.
 *
 * Every handshake accepts any certificate, which is verified afterwards, before anything but QUIT is sent. The
 * public authorities and the host's name verify it, or DANE (net/tls/dane.ts). This distinguishes a failed
 * verification from a failed handshake. Opportunistic and required TLS continue in any case: the alternative is
 * plain text, or there is no name to check. Sessions are never resumed, because a resumed session skips the
 * verification. All connections share one secure context, because creating one costs half of a handshake.
 */
import type { X509Certificate } from 'node:crypto';
import { isIP, type Socket } from 'node:net';
import {
  connect,
  createSecureContext,
  type SecureContext,
  type SecureContextOptions,
  type TLSSocket,
} from 'node:tls';
import { daneProblem } from '../tls/dane.ts';
import type { SmtpOptions, SmtpTlsFacts } from './client-session.ts';
import type { TlsResult, WireFailure } from './client-wire.ts';

type SecureResult = { socket: TLSSocket; facts: SmtpTlsFacts } | WireFailure;

type TlsOptions = Pick<SmtpOptions, 'host' | 'tls' | 'ca' | 'dane' | 'reducedHello'>;

/**
 * A small ClientHello. The ClientHello of OpenSSL 3.5 has 1,600 bytes because of its post-quantum key share and needs
 * two packets, which some old servers and middleboxes cannot handle. This one has 231 bytes, also below the 256 at
 * which others fail (RFC 7685). It keeps forward secrecy and AEAD.
 */
const REDUCED_HELLO: SecureContextOptions = {
  minVersion: 'TLSv1.2',
  ecdhCurve: 'X25519:P-256',
  ciphers: [
    'TLS_AES_128_GCM_SHA256',
    'TLS_AES_256_GCM_SHA384',
    'ECDHE-ECDSA-AES128-GCM-SHA256',
    'ECDHE-RSA-AES128-GCM-SHA256',
    'ECDHE-ECDSA-AES256-GCM-SHA384',
    'ECDHE-RSA-AES256-GCM-SHA384',
  ].join(':'),
  sigalgs: [
    'ecdsa_secp256r1_sha256',
    'rsa_pss_rsae_sha256',
    'rsa_pkcs1_sha256',
    'ecdsa_secp384r1_sha384',
    'rsa_pkcs1_sha384',
  ].join(':'),
};

const secureContexts = new Map<string, SecureContext>();

function secureContextFor({ ca, reducedHello = false }: TlsOptions): SecureContext {
  const key = `${reducedHello} ${ca ?? ''}`;
  const known = secureContexts.get(key);
  if (known !== undefined) return known;
  const offers = reducedHello ? REDUCED_HELLO : {};
  const context = createSecureContext({ ...offers, ...(ca === undefined ? {} : { ca }) });
  secureContexts.set(key, context);
  return context;
}

/**
 * Starts TLS on a connected socket. Destroys the socket when the handshake fails. `facts` contains the result of the
 * verification: `missingProof` must accept them before anything is sent.
 */
export async function secureSocket(
  socket: Socket,
  options: TlsOptions,
  timeoutMs: number,
): Promise<SecureResult> {
  const result = await runTlsHandshake(socket, options, timeoutMs);
  return 'cause' in result ? result : { socket: result, facts: verifyPeer(result, options) };
}

/** Returns why nothing may be sent on this connection; null when its proof suffices or none is required. */
export function missingProof({ tls }: TlsOptions, facts: SmtpTlsFacts): WireFailure | null {
  const isProofRequired = tls === 'enforced' || tls === 'dane';
  if (!isProofRequired || facts.verified) return null;
  const message = `The server does not prove its identity: ${facts.problem}.`;
  return { cause: 'tls', message, tlsResult: facts.result };
}

function runTlsHandshake(
  socket: Socket,
  options: TlsOptions,
  timeoutMs: number,
): Promise<TLSSocket | WireFailure> {
  return new Promise((resolve) => {
    // RFC 7672 §8.1: with DANE, the SNI is the name that publishes the TLSA records.
    const name = options.dane?.names[0] ?? options.host;
    const tlsSocket = connect({
      socket,
      host: options.host,
      // RFC 6066 §3: SNI cannot be an IP address; `host` is verified instead.
      ...(isIP(name) === 0 ? { servername: name } : {}),
      secureContext: secureContextFor(options),
      rejectUnauthorized: false,
    });
    const finish = (result: TLSSocket | WireFailure): void => {
      clearTimeout(timer);
      tlsSocket.off('secureConnect', succeed).off('close', close);
      // After a failure the listener stays, because a destroyed socket may still emit an error.
      if ('cause' in result) tlsSocket.destroy();
      else tlsSocket.off('error', fail);
      resolve(result);
    };
    const succeed = (): void => finish(tlsSocket);
    const fail = (error: NodeJS.ErrnoException): void =>
      finish({
        cause: 'tls',
        message: `The TLS handshake failed (${error.code ?? error.message}).`,
      });
    const close = (): void =>
      finish({
        cause: 'tls',
        message: 'The server closed the connection during the TLS handshake.',
      });
    const timer = setTimeout(() => {
      finish({ cause: 'timeout', message: `No TLS handshake within ${timeoutMs / 1000} s.` });
    }, timeoutMs);
    tlsSocket.once('secureConnect', succeed).on('error', fail).once('close', close);
  });
}

function verifyPeer(socket: TLSSocket, options: TlsOptions): SmtpTlsFacts {
  const verification =
    options.dane === undefined
      ? problemByAuthorities(socket, options)
      : problemByDane(socket, options);
  return {
    version: socket.getProtocol() ?? 'unknown',
    cipher: socket.getCipher().name,
    verified: verification === null,
    problem: verification?.problem ?? null,
    result: verification?.result ?? null,
  };
}

type VerificationProblem = { problem: string; result: TlsResult } | null;

function problemByDane(socket: TLSSocket, { dane }: TlsOptions): VerificationProblem {
  const problem = dane === undefined ? null : daneProblem(certificateChain(socket), dane);
  return problem === null ? null : { problem, result: 'validation-failure' };
}

function problemByAuthorities(socket: TLSSocket, { host }: TlsOptions): VerificationProblem {
  if (!socket.authorized) return authorizationProblem(socket.authorizationError, host);
  // RFC 8461 §4.2 requires the name in subjectAltName; Node also accepts the common name.
  const leaf = socket.getPeerX509Certificate();
  if (isIP(host) !== 0 || leaf?.checkHost(host, { subject: 'never' }) !== undefined) return null;
  return authorizationProblem('ERR_TLS_CERT_ALTNAME_INVALID', host);
}

function authorizationProblem(error: Error | string | null, host: string): VerificationProblem {
  // At run time this is the code, despite its type.
  const code = String(error);
  if (code === 'ERR_TLS_CERT_ALTNAME_INVALID') {
    return {
      problem: `its certificate is not for ${host}`,
      result: 'certificate-host-mismatch',
    };
  }
  if (code === 'CERT_HAS_EXPIRED') {
    return { problem: 'its certificate has expired', result: 'certificate-expired' };
  }
  const problem = `no known authority vouches for its certificate (${code})`;
  return { problem, result: 'certificate-not-trusted' };
}

/** Returns the chain as the server sent it, its own certificate first. */
function certificateChain(socket: TLSSocket): X509Certificate[] {
  const chain: X509Certificate[] = [];
  let next = socket.getPeerX509Certificate();
  while (next !== undefined && chain.length < 10) {
    chain.push(next);
    next = next.issuerCertificate;
  }
  return chain;
}
