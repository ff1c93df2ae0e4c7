/** The audit log in words. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { LEAST_ROLES } from '../../../../src/http/roles.ts';
import { actionsOf, actionWords } from './audit-words.ts';

test('an action is what somebody did', () => {
  const expected = {
    deleteDomain: 'Deleted a domain',
    createApiKey: 'Created an API key',
    rotateApiKey: 'Rotated an API key',
    verifyDomain: 'Checked a domain',
    holdQueue: 'Put queued mail on hold',
    replayWebhookDelivery: 'Replayed a webhook delivery',
    beginTotp: 'Began to set up a second factor',
    importSuppressions: 'Imported suppressions',
    dropQueue: 'Dropped queued mail',
    removeMember: 'Removed a member',
    updateWebhook: 'Changed a webhook',
    sendEmail: 'Sent an email',
    updateProjectSettings: 'Changed limits and settings',
  };
  for (const [action, words] of Object.entries(expected)) assert.equal(actionWords(action), words);
});

test('every change has words that begin with a verb and have no name of an operation', () => {
  for (const action of LEAST_ROLES.keys()) {
    assert.match(actionWords(action), /^[A-Z][a-z]+( [a-zA-Z-]+)*$/, action);
    assert.doesNotMatch(actionWords(action), /[a-z][A-Z]/, action);
  }
});

test('the choice of actions has changes only', () => {
  assert.ok(actionsOf('domain').includes('deleteDomain'));
  assert.ok(!actionsOf('domain').includes('listDomains'));
});
