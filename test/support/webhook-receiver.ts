/**
 * A webhook endpoint on loopback that a test controls. It can respond, hang, redirect, send slowly, flood, and close
 * connections. It records every request before it responds.
 *
 *   await using receiver = await startReceiver();
 *   receiver.behaviour = 500;
 */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { text } from 'node:stream/consumers';
import { Webhook } from 'standardwebhooks';
import { waitFor } from './wait.ts';

export type Received = {
  path: string;
  headers: Record<string, string>;
  body: string;
  /** `webhook-id`: the event. */
  id: string;
  // oxlint-disable-next-line typescript/no-explicit-any
  event: { type: string; created_at: string; data: any };
};

export type Behaviour =
  /** This status, with a short body. */
  | number
  | { status: number; headers?: Record<string, string>; body?: string }
  /** Never responds. */
  | 'hang'
  /** 200, then a byte every 50 ms for ever. */
  | 'drip'
  /** 200, then as many bytes as the client reads. */
  | 'flood'
  /** Closes the connection instead of a response. */
  | 'break off';

export type Receiver = AsyncDisposable & {
  /** `http://127.0.0.1:<port>`; any path works. */
  url: string;
  port: number;
  /** How it responds from now on. */
  behaviour: Behaviour | ((request: Received) => Behaviour | Promise<Behaviour>);
  readonly received: Received[];
  /** The ids of `received`, in order. */
  ids(): string[];
  /** Waits until so many requests have arrived. */
  waitForCount(count: number, options?: { timeoutMs?: number }): Promise<Received[]>;
};

export async function startReceiver(behaviour: Receiver['behaviour'] = 200): Promise<Receiver> {
  const sockets = new Set<Socket>();
  const server = createServer((request, response) => {
    void record(request).then(async (received) => {
      receiver.received.push(received);
      const { behaviour: current } = receiver;
      respond(typeof current === 'function' ? await current(received) : current, response);
    });
  });
  server.on('connection', (socket) => {
    sockets.add(socket);
    socket.on('close', () => sockets.delete(socket)).on('error', () => {});
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  const receiver: Receiver = {
    url: `http://127.0.0.1:${port}`,
    port,
    behaviour,
    received: [],
    ids: () => receiver.received.map(({ id }) => id),
    waitForCount: (count, options = {}) =>
      waitFor(() => receiver.received.length >= count && receiver.received, {
        ...options,
        what: `${count} webhooks (${receiver.received.length} came)`,
      }),
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
  return receiver;
}

/** Returns the payload if the reference verifier accepts the signature; else throws. */
export function verified(secret: string, { body, headers }: Received): unknown {
  return new Webhook(secret).verify(body, headers);
}

async function record(request: IncomingMessage): Promise<Received> {
  const body = await text(request);
  const headers = request.headers as Record<string, string>;
  const id = headers['webhook-id'] ?? '';
  return { path: request.url ?? '', headers, body, id, event: JSON.parse(body) };
}

function respond(how: Behaviour, response: ServerResponse): void {
  if (how === 'hang') return;
  if (how === 'break off') return void response.socket?.destroy();
  if (how === 'drip') return drip(response);
  if (how === 'flood') return flood(response);
  const { status, headers, body } =
    typeof how === 'number' ? { status: how, headers: {}, body: undefined } : how;
  response.writeHead(status, headers).end(body ?? `${status}`);
}

function drip(response: ServerResponse): void {
  response.writeHead(200);
  const timer = setInterval(() => response.write('.'), 50);
  response.on('close', () => clearInterval(timer));
}

function flood(response: ServerResponse): void {
  response.writeHead(200);
  const block = Buffer.alloc(65_536, 'x');
  const pour = (): void => {
    while (!response.destroyed && response.write(block));
  };
  response.on('drain', pour);
  pour();
}
