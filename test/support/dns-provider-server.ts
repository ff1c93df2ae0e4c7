/**
 * The API of a DNS provider over HTTP, as its documentation describes it, with zones in memory: wrong tokens, unknown
 * zones, pages of two rows, limited rates, lost responses. dns-provider-apis.ts contains the five APIs.
 *
 *     await using server = await startDnsProviderServer('hetzner', { 'acme.example': [] });
 *     server.fault = 'limited';
 *     server.records('acme.example')
 */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text as readText } from 'node:stream/consumers';
import type { DnsProviderAccess, DnsProviderName } from '../../src/net/dns-provider/providers.ts';
import { API_HANDLERS } from './dns-provider-apis.ts';

/** @property value in the form of a zone file: `"text"` for TXT, `10 host.` for MX */
export type ZoneRecord = { name: string; type: string; value: string; ttlS: number };
export type Row = ZoneRecord & { id: number };

export type ProviderRequest = {
  method: string;
  path: string;
  url: URL;
  headers: IncomingMessage['headers'];
  body: string;
  zones: Map<string, Row[]>;
  token: string;
  newId: () => number;
};
export type ProviderResponse = {
  status: number;
  body?: string;
  headers?: Record<string, string>;
};

/**
 * Happens once.
 * - `limited`: a change is refused because of its rate; the provider asks to wait
 * - `lost`: a change is made, and the connection is cut before the response
 * - `fails`: the provider returns 500
 */
export type ProviderFault = 'limited' | 'lost' | 'fails';

export type DnsProviderServer = AsyncDisposable & {
  readonly access: DnsProviderAccess;
  fault: ProviderFault | null;
  /** `POST /zones/…` of every change that was asked for. */
  readonly changes: string[];
  records(zone: string): ZoneRecord[];
  /** Removes a record, as its owner does in the provider's panel. */
  removeRecord(zone: string, record: ZoneRecord): void;
  /** Called after each change with all records of the zone. */
  onChange: (zone: string, records: readonly ZoneRecord[]) => void;
};

export const PROVIDER_TOKEN = 'token-of-the-dns-provider';
export const PROVIDER_KEY_ID = 'AKIALETTERHAUSDNS';

export async function startDnsProviderServer(
  name: DnsProviderName,
  zonesAtStart: Record<string, ZoneRecord[]>,
): Promise<DnsProviderServer> {
  let lastId = 100;
  const newId = () => (lastId += 1);
  const zones = new Map(
    Object.entries(zonesAtStart).map(([zone, records]) => [
      zone,
      records.map((record) => ({ ...record, id: newId() })),
    ]),
  );
  const handle = API_HANDLERS[name];
  const changes: string[] = [];

  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { method = 'GET', headers } = request;
    const url = new URL(request.url ?? '/', 'http://provider.test');
    const body = await readText(request);
    const isChange = method !== 'GET';
    if (isChange) changes.push(`${method} ${url.pathname}`);
    const fault = isChange || server.fault === 'fails' ? server.fault : null;
    if (fault !== null) server.fault = null;
    if (fault === 'limited') return write(response, handle.limited);
    if (fault === 'fails') return write(response, { status: 500, body: 'Oops' });
    const { pathname: path } = url;
    const parts = { method, path, url, headers, body, zones, token: PROVIDER_TOKEN, newId };
    const result = handle.handle(parts);
    if (isChange) for (const [zone, records] of zones) server.onChange(zone, records);
    if (fault === 'lost') return void response.destroy();
    write(response, result);
  }

  const http = createServer((request, response) => {
    answer(request, response).catch((error: unknown) => {
      write(response, { status: 599, body: String(error) });
    });
  });
  await new Promise<void>((resolve) => http.listen(0, '127.0.0.1', resolve));
  const server: DnsProviderServer = {
    access: {
      name,
      token: PROVIDER_TOKEN,
      accessKeyId: name === 'route53' ? PROVIDER_KEY_ID : null,
      sessionToken: null,
      baseUrl: `http://127.0.0.1:${(http.address() as AddressInfo).port}`,
    },
    fault: null,
    changes,
    records: (zone) => (zones.get(zone) ?? []).map(({ id: _id, ...record }) => record),
    removeRecord: (zone, { name: owner, value }) => {
      const isIt = (row: Row) => row.name === owner && row.value === value;
      zones.set(
        zone,
        (zones.get(zone) ?? []).filter((row) => !isIt(row)),
      );
    },
    onChange: () => {},
    [Symbol.asyncDispose]: async () => {
      http.closeAllConnections();
      await new Promise((resolve) => http.close(resolve));
    },
  };
  return server;
}

function write(response: ServerResponse, { status, body = '', headers = {} }: ProviderResponse) {
  response.writeHead(status, headers).end(body);
}
