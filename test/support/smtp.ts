/** Connects to the scripted mail server (fake-mx.ts), for tests of the client. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import {
  connectSmtp,
  type ConnectResult,
  type SmtpOptions,
  type Transaction,
  type TransactionResult,
} from '../../src/net/smtp/client.ts';
import type { SmtpConnection } from '../../src/net/smtp/client-connection.ts';
import type { FakeMx } from './fake-mx.ts';

/** Milliseconds that a test waits for a silent server. */
export const SILENCE_MS = 50;

/** The authority of the certificates `trusted`, `other-name` and `expired`. */
export const TEST_CA = readFileSync(new URL('certs/ca.pem', import.meta.url), 'utf8');

export function connectTo(
  mx: Pick<FakeMx, 'address' | 'port'>,
  options: Partial<SmtpOptions> = {},
): Promise<ConnectResult> {
  return connectSmtp({
    host: 'mx.test',
    address: mx.address,
    port: mx.port,
    heloName: 'out.letterhaus.test',
    tls: 'opportunistic',
    ca: TEST_CA,
    ...options,
  });
}

/** Opens a session, which must succeed. The caller's `await using` ends it. */
export async function openTo(
  mx: FakeMx,
  options: Partial<SmtpOptions> = {},
): Promise<SmtpConnection & Disposable> {
  const result = await connectTo(mx, options);
  assert.ok(result.kind === 'ready', JSON.stringify(result));
  const { connection } = result;
  return Object.assign(connection, { [Symbol.dispose]: () => connection.destroy() });
}

export function send(
  connection: SmtpConnection,
  overrides: Partial<Transaction> = {},
): Promise<TransactionResult> {
  return connection.send({
    envelopeFrom: 'b-token@send.acme.test',
    recipient: 'jo@full.test',
    message: Buffer.from('Subject: hello\r\n\r\nHello\r\n'),
    smtpUtf8: false,
    mayProceed: () => true,
    ...overrides,
  });
}

/** Returns a result without its transcript. */
export function summary(result: ConnectResult | TransactionResult): object {
  if (result.kind === 'ready') return { kind: 'ready' };
  if (result.kind === 'replied') return { phase: result.phase, code: result.reply.code };
  return { phase: result.phase, cause: result.cause };
}
