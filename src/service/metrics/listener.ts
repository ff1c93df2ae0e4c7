/** The port of LETTERHAUS_METRICS_PORT, on which the supervisor serves the metrics of all workers. */
import { createServer } from 'node:http';
import { type AddressInfo, isIP } from 'node:net';
import { hostProblem } from '../../net/http/host-field.ts';

const PROMETHEUS_TEXT = 'text/plain; version=0.0.4; charset=utf-8';

export type MetricsListener = AsyncDisposable & { url: string };

const CONNECTIONS_MAX = 64;
const TIMEOUT_MS = 10_000;

/**
 * Metrics name projects, sending domains and receivers. So they are served apart from the API, and on the loopback
 * address unless the operator configured another. Number and time of connections are limited.
 *
 * A web page can make a name of its own resolve to this listener (DNS rebinding). So requests are answered only by
 * address, and by names that no stranger can give to this machine.
 * @param where a free port; `names`: the names of this machine
 * @param text undefined while there are no metrics yet
 */
export async function listenForMetrics(
  { names, ...where }: { host: string; port: number; names: readonly string[] },
  text: () => Promise<string> | undefined,
): Promise<MetricsListener> {
  const times = { headersTimeout: TIMEOUT_MS, requestTimeout: TIMEOUT_MS };
  const server = createServer(times, (request, response) => {
    response.setHeader('content-type', PROMETHEUS_TEXT);
    const problem = hostProblem(request, request.url ?? '');
    if (problem !== null) return void response.writeHead(400).end(`${problem}\n`);
    if (!isOwnName(request.headers.host ?? '', names)) {
      return void response.writeHead(421).end(ASK_BY_ADDRESS);
    }
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
  // Limits requests, responses, and clients that do not read.
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

const ASK_BY_ADDRESS =
  'Metrics are not served under this name. Use the address, localhost or LETTERHAUS_HOSTNAME.\n';

/** Returns whether a Host field contains an address, or a name that only this machine or its network can have. */
function isOwnName(field: string, names: readonly string[]): boolean {
  const host = field.replace(/:\d*$/, '').toLowerCase();
  if (host === '' || isIP(host.replace(/^\[(.*)\]$/, '$1')) !== 0) return true;
  return host === 'localhost' || names.some((name) => name.toLowerCase() === host);
}
