/** The five APIs of dns-provider-server.ts, each by its documentation. A page has two rows. */
import { createHash } from 'node:crypto';
import {
  PROVIDER_KEY_ID,
  type ProviderRequest,
  type ProviderResponse,
  type Row,
} from './dns-provider-server.ts';
import { signatureOf } from './s3-server.ts';

type Api = { handle(request: ProviderRequest): ProviderResponse; limited: ProviderResponse };

const PAGE_ROWS = 2;
const json = (status: number, body: unknown, headers = {}): ProviderResponse => ({
  status,
  body: JSON.stringify(body),
  headers,
});

/** Returns one page, and the number of the next one. */
function pageOf<Item>(items: readonly Item[], url: URL) {
  const page = Number(url.searchParams.get('page') ?? 1);
  const last = Math.max(1, Math.ceil(items.length / PAGE_ROWS));
  const rows = items.slice((page - 1) * PAGE_ROWS, page * PAGE_ROWS);
  return { rows, page, last, next: page < last ? page + 1 : null };
}

const fullName = (name: string, zone: string): string =>
  name === '@' || name === '' ? zone : `${name}.${zone}`;
const relativeName = (name: string, zone: string, apex: string): string =>
  name === zone ? apex : name.slice(0, -zone.length - 1);
const sameSet = (row: Row, name: string, type: string): boolean =>
  row.name === name && row.type === type;

const cloudflare: Api = {
  limited: json(
    429,
    { success: false, errors: [{ code: 971, message: 'Please wait and consider throttling' }] },
    { 'retry-after': '0' },
  ),
  handle({ method, path, url, headers, body, zones, token, newId }) {
    const failed = (status: number, code: number, message: string) =>
      json(status, { success: false, errors: [{ code, message }], messages: [], result: null });
    if (headers.authorization !== `Bearer ${token}`) {
      return failed(400, 6003, `Invalid request headers: ${headers.authorization ?? ''}`);
    }
    if (path === '/zones') {
      const name = url.searchParams.get('name') ?? '';
      const result = zones.has(name) ? [{ id: `id-${name}`, name, status: 'active' }] : [];
      return json(200, { success: true, errors: [], result });
    }
    const [, zone = '', id] = /^\/zones\/id-([^/]+)\/dns_records(?:\/(\d+))?$/.exec(path) ?? [];
    const rows = zones.get(zone);
    if (rows === undefined) return failed(404, 7003, 'Could not route to the zone');
    if (method === 'GET') {
      const found = pageOf(
        rows.filter(({ name }) => name === url.searchParams.get('name')),
        url,
      );
      const result = found.rows.map((row) => {
        const [priority = '', host = ''] = row.value.split(' ');
        const content = row.type === 'MX' ? host.replace(/\.$/, '') : row.value;
        const of = { id: String(row.id), type: row.type, name: row.name, content, ttl: row.ttlS };
        return row.type === 'MX' ? { ...of, priority: Number(priority) } : of;
      });
      return json(200, {
        success: true,
        errors: [],
        result,
        result_info: { page: found.page, total_pages: found.last },
      });
    }
    if (method === 'DELETE') {
      zones.set(
        zone,
        rows.filter((row) => String(row.id) !== id),
      );
      return json(200, { success: true, errors: [], result: { id } });
    }
    const { type, name, content, ttl, priority } = JSON.parse(body);
    const value = type === 'MX' ? `${priority} ${content}.` : content;
    if (rows.some((row) => sameSet(row, name, type) && row.value === value)) {
      return failed(400, 81_058, 'An identical record already exists.');
    }
    rows.push({ id: newId(), type, name, value, ttlS: ttl });
    return json(200, { success: true, errors: [], result: { id: 'new' } });
  },
};

const digitalocean: Api = {
  limited: json(
    429,
    { id: 'too_many_requests', message: 'API Rate limit exceeded.' },
    { 'ratelimit-reset': '1' },
  ),
  handle({ method, path, url, headers, body, zones, token, newId }) {
    if (headers.authorization !== `Bearer ${token}`) {
      return json(401, { id: 'Unauthorized', message: 'Unable to authenticate you' });
    }
    const [, zone = '', records, id] =
      /^\/domains\/([^/]+)(\/records)?(?:\/(\d+))?$/.exec(path) ?? [];
    const rows = zones.get(zone);
    if (rows === undefined) return json(404, { id: 'not_found', message: 'Not found.' });
    if (records === undefined) return json(200, { domain: { name: zone } });
    if (method === 'GET') {
      const name = url.searchParams.get('name');
      const found = pageOf(
        rows.filter((row) => row.name === name),
        url,
      );
      const next = new URL(url);
      next.searchParams.set('page', String(found.next));
      next.host = headers.host ?? '';
      return json(200, {
        domain_records: found.rows.map((row) => {
          const [priority = '', host = ''] = row.value.split(' ');
          const text = row.type === 'TXT' ? JSON.parse(row.value.replaceAll('" "', '')) : row.value;
          const data = row.type === 'MX' ? host : text;
          return {
            id: row.id,
            type: row.type,
            name: relativeName(row.name, zone, '@'),
            data: data.replace(/\.$/, ''),
            priority: row.type === 'MX' ? Number(priority) : null,
            ttl: row.ttlS,
          };
        }),
        links: found.next === null ? {} : { pages: { next: next.href } },
      });
    }
    if (method === 'DELETE') {
      zones.set(
        zone,
        rows.filter((row) => String(row.id) !== id),
      );
      return { status: 204 };
    }
    const { type, name, data, ttl, priority } = JSON.parse(body);
    const hostNeedsDot = type === 'MX' || type === 'CNAME';
    if (hostNeedsDot && !data.endsWith('.')) {
      return json(422, { id: 'unprocessable_entity', message: 'Data needs to end with a dot (.)' });
    }
    const text = type === 'TXT' ? JSON.stringify(data) : data;
    const value = type === 'MX' ? `${priority} ${text}` : text;
    rows.push({ id: newId(), type, name: fullName(name, zone), value, ttlS: ttl });
    return json(201, { domain_record: { id: lastIdOf(rows) } });
  },
};

function lastIdOf(rows: readonly Row[]): number {
  return rows.at(-1)?.id ?? 0;
}

/** Groups rows into sets of one type, as APIs with sets return them. */
function setsOf(rows: readonly Row[]): { type: string; ttlS: number; values: string[] }[] {
  const byType = Map.groupBy(rows, ({ type }) => type);
  return [...byType].map(([type, set]) => ({
    type,
    ttlS: set[0]?.ttlS ?? 0,
    values: set.map(({ value }) => value),
  }));
}

const hetzner: Api = {
  limited: json(
    429,
    { error: { code: 'rate_limit_exceeded', message: 'limit of requests per hour reached' } },
    { 'ratelimit-reset': '1' },
  ),
  handle({ method, path, url, headers, body, zones, token, newId }) {
    const failed = (status: number, code: string, message: string) =>
      json(status, { error: { code, message } });
    if (headers.authorization !== `Bearer ${token}`) {
      return failed(401, 'unauthorized', 'unable to authenticate');
    }
    const names = [...zones.keys()];
    if (path === '/zones') {
      const found = names.filter((name) => name === url.searchParams.get('name'));
      const rows = found.map((name) => ({ id: 1 + names.indexOf(name), name, ttl: 3_600 }));
      return json(200, { zones: rows });
    }
    if (path.startsWith('/actions/')) {
      return json(200, { action: { id: 7, status: 'success', error: null } });
    }
    const [, id, subname, type, action] =
      /^\/zones\/(\d+)\/rrsets(?:\/([^/]+)\/(\w+)\/actions\/(\w+))?$/.exec(path) ?? [];
    const zone = names[Number(id) - 1] ?? '';
    const rows = zones.get(zone);
    if (rows === undefined) return failed(404, 'not_found', 'zone not found');
    if (method === 'GET') {
      const name = fullName(url.searchParams.get('name') ?? '', zone);
      const found = pageOf(setsOf(rows.filter((row) => row.name === name)), url);
      const rrsets = found.rows.map((set) => ({
        type: set.type,
        ttl: set.ttlS,
        records: set.values.map((value) => ({ value })),
      }));
      return json(200, { rrsets, meta: { pagination: { next_page: found.next } } });
    }
    const name = fullName(decodeURIComponent(subname ?? ''), zone);
    const { records, ttl } = JSON.parse(body) as { records: { value: string }[]; ttl?: number };
    const set = rows.filter((row) => sameSet(row, name, type ?? ''));
    const values = records.map(({ value }) => value);
    if (action === 'remove_records') {
      const isRemoved = (row: Row) => set.includes(row) && values.includes(row.value);
      zones.set(
        zone,
        rows.filter((row) => !isRemoved(row)),
      );
    } else {
      if (set.some(({ value }) => values.includes(value))) {
        return failed(422, 'invalid_input', 'record already exists');
      }
      const ttlS = set[0]?.ttlS ?? ttl ?? 3_600;
      rows.push(...values.map((value) => ({ id: newId(), name, type: type ?? '', value, ttlS })));
    }
    return json(201, { action: { id: 7, status: 'running', error: null } });
  },
};

const desec: Api = {
  limited: json(429, { detail: 'Request was throttled.' }, { 'retry-after': '0' }),
  handle({ method, path, url, headers, body, zones, token, newId }) {
    if (headers.authorization !== `Token ${token}`) return json(401, { detail: 'Invalid token.' });
    const { searchParams } = url;
    if (path === '/domains/') {
      const name = searchParams.get('owns_qname') ?? '';
      const found = [...zones.keys()].filter((zone) => `.${name}`.endsWith(`.${zone}`));
      return json(
        200,
        found.map((zone) => ({ name: zone, minimum_ttl: 3_600 })),
      );
    }
    const [, zone = ''] = /^\/domains\/([^/]+)\/rrsets\/$/.exec(path) ?? [];
    const rows = zones.get(zone);
    if (rows === undefined) return json(404, { detail: 'Not found.' });
    if (method === 'GET') {
      const name = fullName(searchParams.get('subname') ?? '', zone);
      const paged = new URL(url);
      paged.searchParams.set('page', searchParams.get('cursor') || '1');
      const found = pageOf(setsOf(rows.filter((row) => row.name === name)), paged);
      const next = new URL(url);
      next.searchParams.set('cursor', String(found.next));
      next.host = headers.host ?? '';
      const sets = found.rows.map(({ type, ttlS, values }) => ({
        type,
        ttl: ttlS,
        records: values,
      }));
      return json(200, sets, found.next === null ? {} : { link: `<${next.href}>; rel="next"` });
    }
    const [set] = JSON.parse(body);
    if (set.ttl < 3_600) {
      return json(400, [{ ttl: ['Ensure this value is greater than or equal to 3600.'] }]);
    }
    const name = fullName(set.subname, zone);
    const others = rows.filter((row) => !sameSet(row, name, set.type));
    const added = set.records.map((value: string) => ({
      id: newId(),
      name,
      type: set.type,
      value,
      ttlS: set.ttl,
    }));
    zones.set(zone, [...others, ...added]);
    return json(200, [set]);
  },
};

const xml = (status: number, body: string): ProviderResponse => ({
  status,
  body: `<?xml version="1.0"?>\n${body}`,
});
const awsError = (status: number, code: string, message: string) =>
  xml(
    status,
    `<ErrorResponse xmlns="https://route53.amazonaws.com/doc/2013-04-01/"><Error><Type>Sender</Type><Code>${code}</Code><Message>${message}</Message></Error><RequestId>1</RequestId></ErrorResponse>`,
  );

const route53: Api = {
  limited: awsError(400, 'Throttling', 'Rate exceeded'),
  handle(request) {
    const { method, path, url, body, zones } = request;
    if (!isSigned(request)) {
      return awsError(403, 'SignatureDoesNotMatch', 'The signature does not match.');
    }
    if (path === '/2013-04-01/hostedzonesbyname') {
      const from = url.searchParams.get('dnsname') ?? '';
      const names = [...zones.keys()].filter((zone) => zone >= from);
      const list = names.map((zone) => `${zoneXml(zone, true)}${zoneXml(zone, false)}`).join('');
      return xml(
        200,
        `<ListHostedZonesByNameResponse><HostedZones>${list}</HostedZones></ListHostedZonesByNameResponse>`,
      );
    }
    const [, zone = ''] = /^\/2013-04-01\/hostedzone\/Z-([^/]+)\/rrset\/?$/.exec(path) ?? [];
    const rows = zones.get(zone);
    if (rows === undefined) return awsError(404, 'NoSuchHostedZone', 'No hosted zone found.');
    if (method === 'GET') return listXml(rows, url);
    return changeSets(request, zone, body);
  },
};

function zoneXml(zone: string, isPrivate: boolean): string {
  const id = isPrivate ? `P-${zone}` : `Z-${zone}`;
  return `<HostedZone><Id>/hostedzone/${id}</Id><Name>${zone}.</Name><Config><PrivateZone>${isPrivate}</PrivateZone></Config></HostedZone>`;
}

function listXml(rows: readonly Row[], url: URL): ProviderResponse {
  const from = (url.searchParams.get('name') ?? '').replace(/\.$/, '');
  const fromType = url.searchParams.get('type') ?? '';
  const all = [...Map.groupBy(rows, ({ name }) => name)]
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .flatMap(([name, set]) =>
      setsOf(set)
        .toSorted((a, b) => (a.type < b.type ? -1 : 1))
        .map((one) => ({ ...one, name })),
    )
    .filter(({ name, type }) => name > from || (name === from && type >= fromType));
  const next = all[PAGE_ROWS];
  const sets = all.slice(0, PAGE_ROWS).map(({ name, type, ttlS, values }) => {
    const records = values.map((value) => `<Value>${escapeXml(value)}</Value>`).join('');
    return `<ResourceRecordSet><Name>${name}.</Name><Type>${type}</Type><TTL>${ttlS}</TTL><ResourceRecords>${records}</ResourceRecords></ResourceRecordSet>`;
  });
  const more =
    next === undefined
      ? '<IsTruncated>false</IsTruncated>'
      : `<IsTruncated>true</IsTruncated><NextRecordName>${next.name}.</NextRecordName><NextRecordType>${next.type}</NextRecordType>`;
  const list = `<ResourceRecordSets>${sets.join('')}</ResourceRecordSets>${more}`;
  return xml(200, `<ListResourceRecordSetsResponse>${list}</ListResourceRecordSetsResponse>`);
}

function changeSets(
  { zones, newId }: ProviderRequest,
  zone: string,
  body: string,
): ProviderResponse {
  let rows = zones.get(zone) ?? [];
  for (const [, change = ''] of body.matchAll(/<Change>(.*?)<\/Change>/gs)) {
    const text = (tag: string) => new RegExp(`<${tag}>(.*?)</${tag}>`, 's').exec(change)?.[1] ?? '';
    const name = text('Name').replace(/\.$/, '');
    const type = text('Type');
    const values = [...change.matchAll(/<Value>(.*?)<\/Value>/gs)].map(([, one = '']) =>
      unescapeXml(one),
    );
    const set = rows.filter((row) => sameSet(row, name, type));
    const isSame = set.map(({ value }) => value).join('\n') === values.join('\n');
    if (text('Action') === 'DELETE' ? !isSame : set.length > 0) {
      return awsError(400, 'InvalidChangeBatch', 'The values do not match the current values.');
    }
    const added = values.map((value) => ({
      id: newId(),
      name,
      type,
      value,
      ttlS: Number(text('TTL')),
    }));
    rows =
      text('Action') === 'DELETE' ? rows.filter((row) => !set.includes(row)) : [...rows, ...added];
  }
  zones.set(zone, rows);
  return xml(
    200,
    '<ChangeResourceRecordSetsResponse><ChangeInfo><Status>PENDING</Status></ChangeInfo></ChangeResourceRecordSetsResponse>',
  );
}

function isSigned({ method, url, headers, body, token }: ProviderRequest): boolean {
  const [, keyId, date = '', names = '', signature] =
    /^AWS4-HMAC-SHA256 Credential=([^/]+)\/(\d{8})\/us-east-1\/route53\/aws4_request, ?SignedHeaders=([\w;-]+), ?Signature=([0-9a-f]{64})$/.exec(
      headers.authorization ?? '',
    ) ?? [];
  const expected = signatureOf(
    { method, url: url.pathname + url.search, headers },
    {
      secret: token,
      date,
      region: 'us-east-1',
      signed: names.split(';'),
      service: 'route53',
      bodyHash: createHash('sha256').update(body).digest('hex'),
    },
  );
  return keyId === PROVIDER_KEY_ID && signature === expected;
}

const escapeXml = (text: string): string =>
  text.replaceAll('&', '&amp;').replaceAll('"', '&quot;').replaceAll('<', '&lt;');
const unescapeXml = (text: string): string =>
  text
    .replaceAll('&quot;', '"')
    .replaceAll('&lt;', '<')
    .replaceAll('&gt;', '>')
    .replaceAll('&apos;', "'")
    .replaceAll('&amp;', '&');

export const API_HANDLERS = { cloudflare, route53, hetzner, digitalocean, desec };
