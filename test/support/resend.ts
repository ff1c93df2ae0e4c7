/** The official client for Node, unmodified except for its base URL. */
import assert from 'node:assert/strict';
import { Resend } from 'resend';
import type { ApiClient } from './api-client.ts';

/** Returns a client of the service, by default with its test key. */
export function resendClient(service: ApiClient, key: string = service.testKey): Resend {
  // Every library accepts the base URL with a slash at the end.
  process.env['RESEND_BASE_URL'] = `${service.url}/`;
  return new Resend(key);
}

type Result<Data> =
  | { data: Data; error: null }
  | { data: null; error: { name: string; message: string; statusCode: number | null } };

/** Returns the data of a call that must succeed. */
export function succeeded<Data>(result: Result<Data>): Data {
  assert.equal(result.error, null, JSON.stringify(result.error));
  assert.ok(result.data !== null);
  return result.data;
}

/** Asserts that the call failed with this status and name, and a message for people. */
export function failed(
  { data, error }: Result<unknown>,
  statusCode: number,
  name: string,
  message: RegExp = /./,
): void {
  assert.equal(data, null);
  assert.ok(error);
  assert.deepEqual([error.statusCode, error.name], [statusCode, name], error.message);
  assert.match(error.message, message);
}
