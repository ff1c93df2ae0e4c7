/** The customer's server of `start --once`: receives webhooks on loopback and checks who sent them. */
import { createHmac } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';

const HOST = '127.0.0.1';

/** @property signed the signature is the one that the secret gives (Standard Webhooks) */
export type ReceivedWebhook = { type: string; signed: boolean };

export type Receiver = AsyncDisposable & {
  url: string;
  /** `whsec_...`, as the API gave it. */
  secret: string;
  /** The first event of a type. */
  heard(type: string): Promise<ReceivedWebhook>;
};

export async function openReceiver(): Promise<Receiver> {
  const waiting = new Map<string, PromiseWithResolvers<ReceivedWebhook>>();
  const entry = (type: string) => {
    const known = waiting.get(type) ?? Promise.withResolvers<ReceivedWebhook>();
    waiting.set(type, known);
    return known;
  };
  const take = async (request: IncomingMessage): Promise<void> => {
    const body = await text(request);
    const { type } = JSON.parse(body) as { type: string };
    entry(type).resolve({ type, signed: isSigned(request, body, receiver.secret) });
  };
  const server = createServer((request, response) => {
    void take(request).finally(() => response.writeHead(204).end());
  }).listen(0, HOST);
  await once(server, 'listening');
  const receiver: Receiver = {
    url: `http://${HOST}:${(server.address() as AddressInfo).port}/hooks`,
    secret: '',
    heard: (type) => entry(type).promise,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await once(server.close(), 'close');
    },
  };
  return receiver;
}

function isSigned({ headers }: IncomingMessage, body: string, secret: string): boolean {
  const key = Buffer.from(secret.replace(/^whsec_/, ''), 'base64');
  const signed = `${String(headers['webhook-id'])}.${String(headers['webhook-timestamp'])}.${body}`;
  const expected = `v1,${createHmac('sha256', key).update(signed).digest('base64')}`;
  return String(headers['webhook-signature']).split(' ').includes(expected);
}
