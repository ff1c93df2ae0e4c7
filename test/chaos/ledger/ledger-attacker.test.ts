/** Tests that the ledger finds responses that the attacker must not get, and errors of the service during an attack. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { compareAttacks } from './ledger-attacker.ts';
import type { AttackResponses, FindingKind } from './ledger-types.ts';

const answer = (status: number) => ({ status, count: 2, example: '{}' });

function kinds(change: { answers?: AttackResponses['answers']; ids?: string[] }): FindingKind[] {
  const { answers = [answer(404)], ids = [] } = change;
  const attacks = [{ attack: 'forbidden things', allowed: [403, 404], answers }];
  const shown = { ids, own: new Set(['e1', 'v1']) };
  return compareAttacks({ attacks, shown }).map(({ kind }) => kind);
}

test('refusals, slowing down and things of its own project are no finding', () => {
  assert.deepEqual(kinds({}), []);
  assert.deepEqual(kinds({ answers: [answer(403), answer(429), answer(503)] }), []);
  assert.deepEqual(kinds({ ids: ['e1', 'v1'] }), []);
});

test('a request of the attacker that had to be refused and was not is found', () => {
  for (const status of [200, 202]) {
    assert.deepEqual(kinds({ answers: [answer(404), answer(status)] }), ['attacker_not_refused']);
  }
});

test('an attack that makes the service fail is found', () => {
  for (const status of [400, 500, 502]) {
    assert.deepEqual(kinds({ answers: [answer(404), answer(status)] }), ['unexpected_response']);
  }
});

test('an attack without a response, or only with 429 and 503, is found', () => {
  assert.deepEqual(kinds({ answers: [] }), ['fault_not_exercised']);
  assert.deepEqual(kinds({ answers: [answer(429), answer(503)] }), ['fault_not_exercised']);
});

test('an email or event of another project in a response to the attacker is found', () => {
  assert.deepEqual(kinds({ ids: ['e1', 'x1'] }), ['shown_to_attacker']);
});
