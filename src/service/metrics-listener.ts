/** The port of LETTERHAUS_METRICS_PORT, on which the supervisor serves the metrics of all workers. */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';

const PROMETHEUS_TEXT = 'text/plain; version=0.0.4; charset=utf-8';

export type MetricsListener = AsyncDisposable & { url: string };

const CONNECTIONS_MAX = 64;
const TIMEOUT_MS = 10_000;

/**
 * Metrics name projects, sending domains and receivers, so they are served apart from the API and on
 * the loopback address unless the operator configured another. Number and time of connections are limited.
 *
 * @param where a port that is free
 * @param text undefined while there are none yet
 */
export async function listenForMetrics(
  where: { host: string; port: number },
  text: () => Promise<string> | undefined,
): Promise<MetricsListener> {
  const times = { headersTimeout: TIMEOUT_MS, requestTimeout: TIMEOUT_MS };
  const server = createServer(times, (request, response) => {
    response.setHeader('content-type', PROMETHEUS_TEXT);
    const isScrape = /^\/metrics(?:\?|$)/.test(request.url ?? '');
    if (!isScrape || !/^(?:GET|HEAD)$/.test(request.method ?? '')) {
      return void response.writeHead(404).end('Metrics are at GET /metrics.\n');
    }
    Promise.resolve(text()).then(
      (metrics) => response.writeHead(metrics === undefined ? 503 : 200).end(metrics),
      () => response.writeHead(503).end(),
    );
  });
  server.maxConnections = CONNECTIONS_MAX;
  // Bounds requests, answers, and clients that do not read.
  server.setTimeout(TIMEOUT_MS, (socket) => socket.destroy());
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject).listen(where, () => resolve());
  });
  const { address, family, port } = server.address() as AddressInfo;
  const host = family === 'IPv6' ? `[${address}]` : address;
  return {
    url: `http://${host}:${port}/metrics`,
    async [Symbol.asyncDispose]() {
      const closed = new Promise((resolve) => server.close(resolve));
      server.closeAllConnections();
      await closed;
    },
  };
}
