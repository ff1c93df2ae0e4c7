/** The official client for Node, unmodified, with nothing but its base URL set. */
import assert from 'node:assert/strict';
import { Resend } from 'resend';
import type { ApiClient } from './api-client.ts';

/** A client of the service; by default with its test key. */
export function resendClient(service: ApiClient, key: string = service.testKey): Resend {
  // The slash at the end is the form in which every library takes it.
  process.env['RESEND_BASE_URL'] = `${service.url}/`;
  return new Resend(key);
}

type Result<Data> =
  | { data: Data; error: null }
  | { data: null; error: { name: string; message: string; statusCode: number | null } };

/** The data of a call that has to succeed. */
export function succeeded<Data>(result: Result<Data>): Data {
  assert.equal(result.error, null, JSON.stringify(result.error));
  assert.ok(result.data !== null);
  return result.data;
}

/** The call failed with this status and name, and with a message for people. */
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
