/**
 * The age of the registered domain, from its registry (RDAP, RFC 9083). Receivers defer the mail of a domain that was
 * registered some weeks ago. The registry of the top-level domain is found in the list of IANA (RFC 9224).
 *
 * Many registries answer rarely or not at all, so everything but a date is `unknown`.
 */
import { request } from 'node:https';
import { getDomain } from 'tldts';
import { DAY_MS } from '../../lib/units.ts';
import type { CheckContext } from '../check-context.ts';
import { type Finding, green, unknown, yellow } from '../finding.ts';
import type { Check } from '../run-checks.ts';
import { forEachDomain } from './live-domains.ts';

const YOUNG_DAYS = 42;
const RESPONSE_WITHIN_MS = 8_000;
const RESPONSE_BYTES_MAX = 1024 * 1024;

export const DOMAIN_AGE: Check = {
  id: 'domain_age',
  title: 'Age of the domain',
  run: (context) =>
    forEachDomain(context, async ({ name }) => [await judgeAge(context, getDomain(name) ?? name)]),
};

async function judgeAge(context: CheckContext, name: string): Promise<Finding> {
  const registeredMs = await readRegistration(context, name);
  if (registeredMs === null) {
    return unknown(`The registry of ${name} did not say when it was registered.`, {
      subject: name,
      remedy: 'Look it up where you registered it: receivers distrust domains that are weeks old.',
    });
  }
  const days = Math.floor((context.world.now() - registeredMs) / DAY_MS);
  const date = new Date(registeredMs).toISOString().slice(0, 10);
  if (days >= YOUNG_DAYS) return green(`${name} was registered on ${date}.`, name);
  return yellow(`${name} was registered ${days} days ago, on ${date}.`, {
    subject: name,
    meaning: 'Receivers defer or refuse mail of young domains for some weeks.',
    remedy: 'Start with little mail to recipients who expect it, and send more each day.',
  });
}

async function readRegistration(context: CheckContext, name: string): Promise<number | null> {
  const list = await readJson(context, context.machine.rdapServers);
  const base = findRegistry(list, name.split('.').at(-1) ?? '');
  if (base === null) return null;
  const events = (await readJson(context, `${base.replace(/\/?$/, '/')}domain/${name}`))?.[
    'events'
  ];
  const all: unknown[] = Array.isArray(events) ? events : [];
  const found = all.find((one) => (one as Body | null)?.['eventAction'] === 'registration');
  const ms = Date.parse(String((found as Body | undefined)?.['eventDate']));
  return Number.isNaN(ms) || ms > context.world.now() ? null : ms;
}

type Body = Record<string, unknown>;

/** The list has pairs: top-level domains, and URLs of their registry. */
function findRegistry(list: Body | null, topLevel: string): string | null {
  const services: unknown = list?.['services'];
  if (!Array.isArray(services)) return null;
  for (const [names, urls] of services as [unknown, unknown][]) {
    if (!Array.isArray(names) || !Array.isArray(urls) || !names.includes(topLevel)) continue;
    const url: unknown = urls.find((one) => typeof one === 'string' && one.startsWith('https:'));
    return typeof url === 'string' && URL.canParse(url) ? url : null;
  }
  return null;
}

/** Returns null when the server does not respond with JSON. Never rejects. */
async function readJson({ resolver }: CheckContext, text: string): Promise<Body | null> {
  const url = new URL(text);
  const found = await resolver.a(url.hostname);
  const address = found.kind === 'records' ? found.records[0] : undefined;
  if (address === undefined) return null;
  const answer = await readText(url, address);
  try {
    const value: unknown = JSON.parse(answer ?? '');
    return typeof value === 'object' ? (value as Body | null) : null;
  } catch {
    return null;
  }
}

function readText(url: URL, address: string): Promise<string | null> {
  return new Promise((resolve) => {
    const sent = request({
      host: address,
      port: url.port || 443,
      servername: url.hostname,
      headers: { host: url.host, accept: 'application/rdap+json, application/json' },
      path: url.pathname,
      agent: false,
      signal: AbortSignal.timeout(RESPONSE_WITHIN_MS),
    });
    sent.once('error', () => resolve(null));
    sent.once('response', (response) => {
      let body = '';
      response.setEncoding('utf8');
      response.on('data', (part: string) => {
        body += part;
        if (body.length > RESPONSE_BYTES_MAX) response.destroy();
      });
      response.once('close', () => resolve(response.complete ? body : null));
    });
    sent.end();
  });
}
