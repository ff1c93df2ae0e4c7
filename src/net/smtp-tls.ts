/**
 * TLS for SMTP: STARTTLS (RFC 3207) and TLS from the first byte.
 *
 * Opportunistic means that any certificate will do, because plain text is what the alternative
 * would be; whether chain and host name hold is recorded truly all the same. Sessions are never
 * resumed, since a resumed session skips that check. One secure context serves all connections:
 * making one per connection costs half of a handshake.
 */
import { isIP, type Socket } from 'node:net';
import { connect, createSecureContext, type SecureContext, type TLSSocket } from 'node:tls';
import type { SmtpOptions, SmtpTlsFacts } from './smtp-types.ts';
import type { WireFailure } from './smtp-wire.ts';

export type Secured = { socket: TLSSocket; facts: SmtpTlsFacts } | WireFailure;

const contexts = new Map<string, SecureContext>();

function contextFor(ca: string | undefined): SecureContext {
  const known = contexts.get(ca ?? '');
  if (known !== undefined) return known;
  const context = createSecureContext(ca === undefined ? {} : { ca });
  contexts.set(ca ?? '', context);
  return context;
}

/** Encrypts a connected socket. The socket is destroyed when that fails. */
export function secure(
  socket: Socket,
  options: Pick<SmtpOptions, 'host' | 'tls' | 'ca'>,
  timeoutMs: number,
): Promise<Secured> {
  return new Promise((resolve) => {
    const tlsSocket = connect({
      socket,
      host: options.host,
      // An IP address is no server name (RFC 6066 §3); it is checked as `host`.
      ...(isIP(options.host) === 0 ? { servername: options.host } : {}),
      secureContext: contextFor(options.ca),
      rejectUnauthorized: options.tls === 'enforced',
    });
    const finish = (secured: Secured): void => {
      clearTimeout(timer);
      tlsSocket.off('secureConnect', succeed).off('close', close);
      // After a failure the listener stays: a late error of a dropped socket is no news.
      if ('cause' in secured) tlsSocket.destroy();
      else tlsSocket.off('error', fail);
      resolve(secured);
    };
    const succeed = (): void => finish({ socket: tlsSocket, facts: factsOf(tlsSocket) });
    const fail = (error: NodeJS.ErrnoException): void =>
      finish({
        cause: 'tls',
        message: `The TLS handshake failed (${error.code ?? error.message}).`,
      });
    const close = (): void =>
      finish({ cause: 'tls', message: 'The server hung up during the TLS handshake.' });
    const timer = setTimeout(() => {
      finish({ cause: 'timeout', message: `No TLS handshake within ${timeoutMs / 1000} s.` });
    }, timeoutMs);
    tlsSocket.once('secureConnect', succeed).on('error', fail).once('close', close);
  });
}

function factsOf(socket: TLSSocket): SmtpTlsFacts {
  return {
    version: socket.getProtocol() ?? 'unknown',
    cipher: socket.getCipher().name,
    verified: socket.authorized,
  };
}
