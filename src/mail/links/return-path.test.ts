/** Return paths cannot be forged or turned into other signed addresses. */
import { test } from 'node:test';
import assert from 'node:assert/strict';
import fc from 'fast-check';
import { parseAddress } from '../address.ts';
import {
  makeReturnPath,
  makeUnsubscribeAddress,
  readReturnPath,
  readUnsubscribeAddress,
} from './return-path.ts';

const secret = Buffer.alloc(32, 7);
const domain = 'send.acme.com';
const emailId = '0193a5b4-1c2d-7e3f-8a4b-5c6d7e8f9a0b';
const localPartOf = (address: string) => address.slice(0, address.indexOf('@'));

const recipients = fc.record(
  { emailId: fc.uuid(), position: fc.nat(255) },
  { noNullPrototype: true },
);

test('a return path identifies its recipient, also in capital letters', () => {
  fc.assert(
    fc.property(recipients, fc.boolean(), (recipient, capitals) => {
      const address = makeReturnPath({ ...recipient, domain, secret });
      const local = localPartOf(address);
      assert.deepEqual(readReturnPath(capitals ? local.toUpperCase() : local, secret), recipient);
    }),
  );
});

test('a return path is a short plain address', () => {
  const address = makeReturnPath({ emailId, position: 49, domain, secret });
  assert.match(address, /^b-[a-z2-7]{48}@send\.acme\.com$/);
  assert.equal(parseAddress(address), address);
});

test('a return path with any character changed is invalid', () => {
  const local = localPartOf(makeReturnPath({ emailId, position: 3, domain, secret }));
  fc.assert(
    fc.property(
      fc.nat(local.length - 1),
      fc.constantFrom(...'abz27-0\u0131\u212a'.split('')),
      (at, to) => {
        fc.pre(local[at] !== to);
        assert.equal(readReturnPath(local.slice(0, at) + to + local.slice(at + 1), secret), null);
      },
    ),
    { numRuns: 500 },
  );
});

test('any other address is not a return path', () => {
  const local = localPartOf(makeReturnPath({ emailId, position: 3, domain, secret }));
  assert.equal(readReturnPath(local, Buffer.alloc(32, 8)), null);
  for (const text of [
    '',
    'b-',
    'b',
    local.slice(2),
    `${local}a`,
    local.slice(0, -8),
    `x${local}`,
  ]) {
    assert.equal(readReturnPath(text, secret), null, text);
  }
  fc.assert(fc.property(fc.string(), (text) => readReturnPath(`b-${text}`, secret) === null));
});

test('a value that a token cannot hold throws', () => {
  assert.throws(() => makeReturnPath({ emailId: 'x', position: 0, domain, secret }));
  assert.throws(() => makeReturnPath({ emailId, position: 256, domain, secret }));
});

test('a return path is not a valid unsubscribe address and cannot be turned into one', () => {
  const named = { emailId, position: 3 };
  const reports = localPartOf(makeReturnPath({ ...named, domain, secret }));
  const unsubscribes = localPartOf(makeUnsubscribeAddress({ ...named, domain, secret }));
  assert.deepEqual(readUnsubscribeAddress(unsubscribes.toUpperCase(), secret), named);
  assert.equal(readUnsubscribeAddress(reports, secret), null);
  assert.equal(readUnsubscribeAddress(reports.replace('b-', 'u-'), secret), null);
  assert.equal(readReturnPath(unsubscribes.replace('u-', 'b-'), secret), null);
});
