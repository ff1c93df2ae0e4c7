/**
 * HTTPS by the service itself, for those who run no proxy in front of it. A renewed certificate is shown
 * from the next connection on; who speaks clear text hears that this is HTTPS.
 */
import type { Server } from 'node:http';
import type { ServerOptions, Server as TlsServer } from 'node:https';
import type { TLSSocket } from 'node:tls';
import { rawSocketOf } from './connections.ts';
import { answerClearText } from './raw-answers.ts';
import type { HttpServices } from './services.ts';

/** The certificate and its key, as PEM. */
type Pems = { cert: Buffer; key: Buffer };

export type Certificate = {
  /** Another object after the files have changed; null: there is none that works. */
  pems(): Pems | null;
};

const LEAST = { minVersion: 'TLSv1.2' } as const;

export function tlsOptions(certificate: Certificate, handshakeMs: number): ServerOptions {
  return {
    ...certificate.pems(),
    ...LEAST,
    ALPNProtocols: ['http/1.1'],
    handshakeTimeout: handshakeMs,
  };
}

/** @param server one that was made with tlsOptions */
export function renewCertificate(
  server: Server,
  certificate: Certificate,
  services: Pick<HttpServices, 'log' | 'world'>,
): void {
  const tls = server as unknown as TlsServer;
  let shown = certificate.pems();
  // Before the handshake begins.
  tls.prependListener('connection', () => {
    const pems = certificate.pems();
    if (pems === shown || pems === null) return;
    shown = pems;
    tls.setSecureContext({ ...pems, ...LEAST });
  });
  tls.on('tlsClientError', (error: Error & { code?: string }, socket: TLSSocket) => {
    const raw = rawSocketOf(socket);
    if (error.code === 'ERR_SSL_HTTP_REQUEST' && raw) answerClearText(raw, services);
  });
}
