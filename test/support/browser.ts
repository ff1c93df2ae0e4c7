/** A browser with the dashboard open, as the API sees it: it keeps cookies and sends the origin of requests. */
import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import type { ApiResponse, Service } from './service.ts';

export const OWNER = {
  email: 'owner@acme.test',
  name: 'Olga Owner',
  password: 'correct horse battery staple',
};

type BrowserRequest = { body?: unknown; headers?: Record<string, string> };

export class Browser {
  readonly #service: Service;
  readonly #headers: Record<string, string>;
  /** `name=value`; null: no session cookie. */
  cookie: string | null = null;
  /** The cookie of the browser itself, which outlives its sessions. */
  device: string | null = null;
  /** The cookie of a sign-in in progress. */
  progress: string | null = null;

  /** @param headers headers of every request */
  constructor(service: Service, headers: Record<string, string> = {}) {
    this.#service = service;
    this.#headers = headers;
  }

  /** Sends a request like a script of the dashboard. Headers with the value '' are omitted. */
  async request(
    method: string,
    path: string,
    { body, headers = {} }: BrowserRequest = {},
  ): Promise<ApiResponse> {
    const all = {
      'sec-fetch-site': 'same-origin',
      'letterhaus-session': '1',
      cookie: [this.cookie, this.device, this.progress].filter((one) => one !== null).join('; '),
      ...this.#headers,
      ...headers,
    };
    const response = await this.#service.request(method, path, {
      key: null,
      headers: Object.fromEntries(Object.entries(all).filter(([, value]) => value !== '')),
      ...(body !== undefined && { body }),
    });
    this.#keepCookie(response);
    return response;
  }

  get = (path: string, headers: Record<string, string> = {}) =>
    this.request('GET', path, { headers });
  post = (path: string, body: unknown, headers: Record<string, string> = {}) =>
    this.request('POST', path, { body, headers });

  async signIn({ email, password }: { email: string; password: string }): Promise<ApiResponse> {
    return this.post('/v1/session', { email, password });
  }

  #keepCookie({ headers }: ApiResponse): void {
    for (const line of headers.getSetCookie()) {
      const [pair = ''] = line.split(';', 1);
      const isGone = /Max-Age=0\b/i.test(line);
      if (pair.includes('device=')) this.device = pair;
      else if (pair.includes('sign_in=')) this.progress = isGone ? null : pair;
      else this.cookie = isGone ? null : pair;
    }
  }
}

export function tokenOf(url: string): string {
  const token = /#\w+=([\w-]+)$/.exec(url)?.[1];
  assert.ok(token, url);
  return token;
}

/** Returns a browser in which the owner of a new service is signed in. */
export async function ownerOf(service: Service): Promise<Browser> {
  const browser = new Browser(service);
  const token = tokenOf(service.readyLine.sign_in_url ?? '');
  const response = await browser.post('/v1/session/owner', { token, ...OWNER });
  assert.equal(response.status, 200, response.text);
  return browser;
}

let members = 0;

/** Returns a browser in which a new member with this role is signed in. */
export async function memberOf(service: Service, owner: Browser, role: string): Promise<Browser> {
  members += 1;
  const email = `${role}${members}@acme.test`;
  const invited = await owner.post('/v1/invitations', { email, role });
  assert.equal(invited.status, 201, invited.text);
  const browser = new Browser(service);
  const token = tokenOf(invited.body.url);
  const who = { token, name: `${role} ${members}`, password: OWNER.password };
  const joined = await browser.post('/v1/invitations/accept', who);
  assert.equal(joined.status, 200, joined.text);
  return browser;
}

const BASE32 = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567';
const PERIOD_S = 30;

/**
 * Returns the code that an authenticator app shows for a secret, computed independently of the service.
 * @param options.ahead periods from now
 */
export async function currentCode(
  service: Service,
  secret: string,
  { ahead = 0 }: { ahead?: number } = {},
): Promise<string> {
  const [{ now }] = await service.sql('select extract(epoch from app_now())::float8 as now');
  const bits = [...secret].map((one) => BASE32.indexOf(one).toString(2).padStart(5, '0')).join('');
  const bytes = bits.match(/.{8}/g)!.map((byte) => Number.parseInt(byte, 2));
  const period = (Math.floor(now / PERIOD_S) + ahead).toString(16).padStart(16, '0');
  const mac = createHmac('sha1', Buffer.from(bytes)).update(Buffer.from(period, 'hex')).digest();
  const number = mac.readUInt32BE(mac.at(-1)! % 16) % 2 ** 31;
  return String(number % 1_000_000).padStart(6, '0');
}
