/**
 * A separate port for HTTP requests that strangers may send, without TLS and without the API. Number and time of
 * connections are limited. A request that names two hosts gets 400.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { hostProblem } from './host-field.ts';

// An import would evaluate every export of node:http, which is slow (http/socket/raw-responses.ts).
const { createServer } = process.getBuiltinModule('node:http');

const TIMEOUT_MS = 10_000;

type ListenerOptions = {
  /** A host of null: all addresses. */
  where: { host: string | null; port: number };
  connectionsMax: number;
  contentType: string;
  respond: (request: IncomingMessage, response: ServerResponse) => void;
};

export type PublicListener = AsyncDisposable & { address: AddressInfo };

export async function startPublicListener(options: ListenerOptions): Promise<PublicListener> {
  const { where, connectionsMax, contentType, respond } = options;
  const times = { headersTimeout: TIMEOUT_MS, requestTimeout: TIMEOUT_MS };
  const server = createServer(times, (request, response) => {
    response.setHeader('content-type', contentType);
    const problem = hostProblem(request, request.url ?? '');
    if (problem !== null) response.writeHead(400).end(`${problem}\n`);
    else respond(request, response);
  });
  server.maxConnections = connectionsMax;
  // Limits requests, responses, and clients that do not read.
  server.setTimeout(TIMEOUT_MS, (socket) => socket.destroy());
  await new Promise<void>((resolve, reject) => {
    const { host, port } = where;
    server.once('error', reject).listen({ port, ...(host !== null && { host }) }, resolve);
  });
  return {
    address: server.address() as AddressInfo,
    async [Symbol.asyncDispose]() {
      const closed = new Promise((resolve) => server.close(resolve));
      server.closeAllConnections();
      await closed;
    },
  };
}
