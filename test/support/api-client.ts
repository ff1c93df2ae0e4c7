/** A client of one project of a running service: requests over HTTP, and commands of the command line. */
import assert from 'node:assert/strict';
import type { Scope } from '../../src/core/scope.ts';
import { createKey } from '../../src/accounts/keys/key-store.ts';
import type { Queryable } from '../../src/database/database.ts';
import type { CommandEnd } from './letterhaus.ts';
import { waitFor } from './wait.ts';

export type ApiResponse = {
  status: number;
  headers: Headers;
  text: string;
  /** The parsed JSON; null when there is none. Any, because tests read it like a client. */
  // oxlint-disable-next-line typescript/no-explicit-any
  body: any;
};

export type RequestOptions = {
  /** Default: the test key; null: no Authorization header. */
  key?: string | null;
  /** A string or bytes are sent unchanged, everything else as JSON. */
  body?: unknown;
  headers?: Record<string, string>;
};

type WaitOptions = { key?: string; timeoutMs?: number };

export abstract class ApiClient {
  abstract readonly url: string;
  /** A key with full access to the test environment. */
  abstract readonly testKey: string;
  #liveKey: Promise<string> | null = null;

  /** Returns the service's log about the email, for the message of a wait that timed out. */
  protected abstract logsAbout(emailId: string): string;

  protected abstract createLiveKey(): Promise<string>;

  /** Runs a command of bin/letterhaus on the data of the service. */
  abstract cli(...args: string[]): Promise<CommandEnd>;

  /** Runs a command with --json that must succeed. Returns its parsed output. */
  // oxlint-disable-next-line typescript/no-explicit-any
  async cliJson(...args: string[]): Promise<any> {
    const { code, stdout, stderr } = await this.cli(...args, '--json');
    assert.equal(code, 0, stderr);
    return JSON.parse(stdout);
  }

  /** Returns a key with full access to the live environment, the same at every call. */
  liveKey(): Promise<string> {
    this.#liveKey ??= this.createLiveKey();
    return this.#liveKey;
  }

  async request(method: string, path: string, options: RequestOptions = {}): Promise<ApiResponse> {
    const { key = this.testKey, body } = options;
    const response = await fetch(this.url + path, {
      method,
      headers: {
        ...(key === null ? {} : { authorization: `Bearer ${key}` }),
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        ...options.headers,
      },
      ...(body === undefined ? {} : { body: isEncoded(body) ? body : JSON.stringify(body) }),
    });
    const text = await response.text();
    const isJson = response.headers.get('content-type')?.includes('json') === true;
    const { status, headers } = response;
    return { status, headers, text, body: isJson && text !== '' ? JSON.parse(text) : null };
  }

  /** Sends an email that must be accepted. By default a short one from acme.test to a simulator address. */
  async send(draft: object = {}, options: Omit<RequestOptions, 'body'> = {}): Promise<string> {
    const email = {
      from: 'Acme <hello@acme.test>',
      to: 'delivered@simulator.test',
      subject: 'Hello',
      html: '<p>Hello</p>',
      ...draft,
    };
    const response = await this.request('POST', '/v1/emails', { ...options, body: email });
    assert.equal(response.status, 202, response.text);
    return response.body.id;
  }

  /** Returns the email as the API shows it. */
  // oxlint-disable-next-line typescript/no-explicit-any
  async email(id: string, key?: string): Promise<any> {
    const response = await this.request(
      'GET',
      `/v1/emails/${id}`,
      key === undefined ? {} : { key },
    );
    assert.equal(response.status, 200, response.text);
    return response.body;
  }

  /** Waits until the email has the status. @returns the email */
  // oxlint-disable-next-line typescript/no-explicit-any
  async waitForStatus(id: string, status: string, options: WaitOptions = {}): Promise<any> {
    let last = '';
    const look = async () => {
      const email = await this.email(id, options.key);
      last = email.status;
      return email.status === status && email;
    };
    const { timeoutMs = 60_000 } = options;
    return waitFor(look, { what: `email ${id} to be ${status}`, timeoutMs }).catch((error) => {
      throw new Error(`${error.message}; it is ${last}\n${this.logsAbout(id)}`);
    });
  }
}

function isEncoded(body: unknown): body is string | Uint8Array<ArrayBuffer> {
  return typeof body === 'string' || body instanceof Uint8Array;
}

/** @returns the text of the key */
export async function createFullKey(db: Queryable, scope: Scope): Promise<string> {
  const rights = { permission: 'full_access', domain: null, expiresAt: null } as const;
  return (await createKey(db, scope, { name: 'Full access', ...rights })).text;
}

/** Marks a domain as verified, without DNS records. */
export async function declareVerified(db: Queryable, domainId: string): Promise<void> {
  const sql = `update domains set status = 'verified', verified_at = app_now() where id = $1`;
  await db.query(sql, [domainId]);
}
