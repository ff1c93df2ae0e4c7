/** Tests that clients distinguish responses of an outage from responses that no client may get. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isUnavailable, isCrowdedOut } from './node-requests.ts';

const unavailable = (message: string) => ({
  status: 503,
  text: JSON.stringify({ error: { code: 'service_unavailable', message } }),
});

test('a 503 that others have caused is no outage', () => {
  for (const message of [
    'Nothing was accepted: too many large requests are in progress; try again in a moment.',
    'Nothing was accepted: 252 event streams are open; try again in a moment.',
  ]) {
    assert.equal(isCrowdedOut(unavailable(message)), true, message);
    assert.equal(isUnavailable(unavailable(message)), false, message);
  }
});

test('a 503 because the database is unavailable is an outage', () => {
  const away = unavailable('The database cannot be reached; nothing was accepted or changed.');
  assert.equal(isUnavailable(away), true);
  assert.equal(isCrowdedOut(away), false);
  assert.equal(isUnavailable({ ...away, status: 500 }), false);
});
