/** Helpers of the API tests: the shape of failures, forms of ids and times, and raw requests. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect } from 'node:net';
import type { ApiResponse } from './service.ts';

export const UUID_V7 = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;
/** ISO 8601 in UTC with milliseconds. */
export const TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/;
export const UNKNOWN_ID = '0193f2a4-7c1e-7b3a-9d52-6f0e8c4b21aa';

/** A valid email from the domain that the first start adds. */
export const EMAIL = {
  from: 'Acme <hello@acme.test>',
  to: 'delivered@simulator.test',
  subject: 'Hello',
  html: '<p>Hello</p>',
};

/** Longer than the service's own time limits; ends the wait for a broken service. */
const RAW_TIMEOUT_MS = 45_000;

/** Asserts that the response is a failure with this status and code, in the shape of every error. */
export function assertFailure(
  response: ApiResponse,
  status: number,
  code: string,
  message: RegExp = /./,
): void {
  assert.equal(response.status, status, response.text);
  assert.match(response.headers.get('content-type') ?? '', /^application\/json\b/);
  const { error, ...rest } = response.body;
  assert.deepEqual(rest, {});
  const { code: itsCode, message: itsMessage, request_id, details, ...more } = error;
  assert.deepEqual(more, {});
  assert.equal(itsCode, code, response.text);
  assert.match(itsMessage, message);
  assert.match(itsMessage, /^[^\n<]*\w[^\n]*$/);
  assert.match(request_id, UUID_V7);
  assert.equal(response.headers.get('x-request-id'), request_id);
  for (const detail of details ?? []) {
    assert.deepEqual(Object.keys(detail).toSorted(), ['field', 'message']);
    assert.ok(typeof detail.field === 'string' && typeof detail.message === 'string');
  }
}

/** Writes bytes to the service and returns all its responses until it closes the connection, in order. */
export async function rawResponses(url: string, bytes: string | Buffer): Promise<ApiResponse[]> {
  return parseResponses(await rawBytes(url, bytes));
}

/** Returns the same as text, for responses that do not come from the API. */
export async function rawText(url: string, bytes: string | Buffer): Promise<string> {
  return (await rawBytes(url, bytes)).toString('latin1');
}

async function rawBytes(url: string, bytes: string | Buffer): Promise<Buffer> {
  const { hostname, port } = new URL(url);
  const socket = connect({ host: hostname, port: Number(port) });
  const chunks: Buffer[] = [];
  socket.on('data', (chunk: Buffer) => chunks.push(chunk));
  // A reset after the response counts as a close; one before it leaves no responses.
  socket.on('error', () => {});
  socket.setTimeout(RAW_TIMEOUT_MS, () => socket.destroy());
  socket.write(bytes);
  await once(socket, 'close');
  return Buffer.concat(chunks);
}

/** Returns the last response, for requests that end the connection. */
export async function rawResponse(url: string, bytes: string | Buffer): Promise<ApiResponse> {
  const response = (await rawResponses(url, bytes)).at(-1);
  assert.ok(response, 'the connection was closed without a response');
  return response;
}

function parseResponses(bytes: Buffer): ApiResponse[] {
  const responses: ApiResponse[] = [];
  for (let rest = bytes; rest.length > 0;) {
    const end = rest.indexOf('\r\n\r\n');
    assert.ok(end > 0, `not HTTP: ${rest.toString('latin1')}`);
    const [line = '', ...fields] = rest.toString('latin1', 0, end).split('\r\n');
    const status = Number(/^HTTP\/1\.1 (\d{3}) /.exec(line)?.[1]);
    const headers = new Headers(
      fields.map((field) => [field.split(':', 1)[0]!, field.slice(field.indexOf(':') + 1).trim()]),
    );
    const length = Number(headers.get('content-length') ?? 0);
    const text = rest.toString('utf8', end + 4, end + 4 + length);
    const isJson = headers.get('content-type')?.includes('json') === true;
    responses.push({ status, headers, text, body: isJson ? JSON.parse(text) : null });
    rest = rest.subarray(end + 4 + length);
  }
  return responses;
}
