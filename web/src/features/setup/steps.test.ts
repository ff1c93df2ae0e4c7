/** How far the setup of a project is, from what the service says. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Domain, EmailSummary } from '../../../../sdk/src/api.ts';
import { type Facts, progressOf, stepsOf, type StepId } from './steps.ts';

const NOTHING: Facts = {
  isOwner: true,
  doctor: undefined,
  status: undefined,
  variables: [],
  keys: [],
  domains: [],
  webhooks: [],
  testEmail: undefined,
  liveEmail: undefined,
};

const domainOf = (status: Domain['status'], found: string): Domain => {
  const record = { record: 'SPF', type: 'TXT', required: true, status: found };
  return { id: 'd', name: 'acme.com', status, records: [record] } as unknown as Domain;
};
const emailOf = (status: string) => ({ id: 'e', status }) as unknown as EmailSummary;

function stateOf(facts: Partial<Facts>, id: StepId) {
  const step = stepsOf({ ...NOTHING, ...facts }).find((one) => one.id === id);
  return step && [step.state, step.summary];
}

test('an empty installation has no step done, and begins with its server', () => {
  const progress = progressOf(stepsOf(NOTHING));
  assert.deepEqual([progress.done, progress.total, progress.next?.id], [0, 7, 'server']);
  assert.equal(progress.title, '0 of 7 required steps done. Next: server reaches the internet');
});

test('members who do not run the installation see the steps of their project only', () => {
  const ids = stepsOf({ ...NOTHING, isOwner: false }).map(({ id }) => id);
  assert.deepEqual(ids, ['key', 'first_email', 'domain', 'webhook', 'live_email']);
});

test('a wrong record comes before what is missing', () => {
  const wrong = { domains: [domainOf('pending', 'mismatch')] };
  assert.deepEqual(stateOf(wrong, 'domain'), ['wrong', '0 of 1 records found']);
  assert.deepEqual(stateOf({ domains: [domainOf('pending', 'missing')] }, 'domain')?.[0], 'todo');
  const { next, title } = progressOf(stepsOf({ ...NOTHING, ...wrong }));
  assert.equal(next?.id, 'domain');
  assert.equal(title, '0 of 7 required steps done. Next: domain acme.com');
});

test('the first live email waits for a domain, and a bounce is no success', () => {
  assert.equal(stateOf({}, 'live_email')?.[0], 'waits');
  const domains = [domainOf('verified', 'verified')];
  assert.equal(stateOf({ domains }, 'live_email')?.[0], 'todo');
  assert.deepEqual(stateOf({ liveEmail: emailOf('bounced') }, 'live_email'), ['wrong', 'Bounced']);
  assert.deepEqual(stateOf({ liveEmail: emailOf('delivered') }, 'live_email')?.[0], 'done');
  const canceled = stateOf({ liveEmail: emailOf('canceled') }, 'live_email');
  assert.deepEqual(canceled, ['todo', 'Not sent yet']);
});

test('alerts are on when a variable of the service sets them', () => {
  const variable = (name: string, isSet: boolean) =>
    ({ object: 'variable', name, is_set: isSet, is_hidden: false, value: null }) as const;
  const variables = [
    variable('LETTERHAUS_OPERATOR_ADDRESS', true),
    variable('LETTERHAUS_OPERATOR_WEBHOOK', true),
  ];
  assert.deepEqual(stateOf({ variables }, 'alerts'), ['done', 'By email and webhook']);
  const unset = variables.map((one) => ({ ...one, is_set: false }));
  assert.deepEqual(stateOf({ variables: unset }, 'alerts')?.[0], 'todo');
});

test('a step that failed after a live email arrived is still named', () => {
  const facts = { ...NOTHING, isOwner: false, liveEmail: emailOf('delivered') };
  const progress = progressOf(stepsOf(facts));
  assert.deepEqual([progress.done, progress.next?.id, progress.isWrong], [1, 'key', false]);
});
