/** Sends emails that differ from a valid one in one field, and reads the results. */
import assert from 'node:assert/strict';
import PostalMime from 'postal-mime';
import { assertFailure, EMAIL } from './api.ts';
import type { ApiResponse, ApiClient } from './api-client.ts';

export function changing(service: ApiClient) {
  const post = (change: object, key?: string): Promise<ApiResponse> =>
    service.request('POST', '/v1/emails', {
      body: { ...EMAIL, ...change },
      ...(key === undefined ? {} : { key }),
    });

  /** A change that is undefined omits the field. */
  const refused = async (change: object, expected: RegExp): Promise<void> => {
    assertFailure(await post(change), 422, 'validation_error', expected);
  };

  const accepted = async (change: object): Promise<ApiResponse['body']> => {
    const response = await post(change);
    assert.equal(response.status, 202, response.text);
    return service.email(response.body.id);
  };

  /** Returns the sent message, parsed by an independent parser. */
  const message = async (change: object) => {
    const { id } = await accepted(change);
    const content = await service.request('GET', `/v1/emails/${id}/content`);
    assert.equal(content.headers.get('content-type'), 'message/rfc822');
    return { ...(await PostalMime.parse(content.text)), raw: content.text };
  };

  return { post, refused, accepted, message };
}

type Parsed = Awaited<ReturnType<ReturnType<typeof changing>['message']>>;

export const header = ({ headers }: Parsed, name: string): string[] =>
  headers.filter(({ key }) => key === name.toLowerCase()).map(({ value }) => value);

export const many = (count: number): string[] =>
  Array.from({ length: count }, (_, n) => `to${n}@simulator.test`);
