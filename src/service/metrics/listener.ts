/** The port of LETTERHAUS_METRICS_PORT, on which the supervisor serves the metrics of all workers. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { isIP } from 'node:net';
import { startPublicListener } from '../../net/http/public-listener.ts';

const PROMETHEUS_TEXT = 'text/plain; version=0.0.4; charset=utf-8';

export type MetricsListener = AsyncDisposable & { url: string };

const CONNECTIONS_MAX = 64;

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
  const respond = (request: IncomingMessage, response: ServerResponse): void => {
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
  };
  const listener = await startPublicListener({
    where,
    connectionsMax: CONNECTIONS_MAX,
    contentType: PROMETHEUS_TEXT,
    respond,
  });
  const { address, family, port } = listener.address;
  const host = family === 'IPv6' ? `[${address}]` : address;
  return { ...listener, url: `http://${host}:${port}/metrics` };
}

const ASK_BY_ADDRESS =
  'Metrics are not served under this name. Use the address, localhost or LETTERHAUS_HOSTNAME.\n';

/** Returns whether a Host field contains an address, or a name that only this machine or its network can have. */
function isOwnName(field: string, names: readonly string[]): boolean {
  const host = field.replace(/:\d*$/, '').toLowerCase();
  if (host === '' || isIP(host.replace(/^\[(.*)\]$/, '$1')) !== 0) return true;
  return host === 'localhost' || names.some((name) => name.toLowerCase() === host);
}
