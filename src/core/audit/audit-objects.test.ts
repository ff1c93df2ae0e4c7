/** Shows that each action of the audit log has one object. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { LEAST_ROLES } from '../../http/roles.ts';
import { type AuditObject, objectOfAction } from './audit-objects.ts';

test('the object of a change follows from its action', () => {
  const expected: Record<string, AuditObject> = {
    rotateApiKey: 'api_key',
    importSuppressions: 'suppression',
    replayWebhookDelivery: 'webhook',
    publishTemplate: 'template',
    cancelDomainDkimRotation: 'domain',
    publishDomainRecords: 'domain',
    sendEmailBatch: 'email',
    undoQueueDrop: 'queue',
    probeProvider: 'queue',
    createInvitation: 'invitation',
    acceptInvitation: 'member',
    updateProjectSettings: 'project',
    signInWithPasskey: 'account',
    makePasswordLink: 'account',
    linkOidc: 'account',
    updateSignInPolicy: 'installation',
    setReturnPathHost: 'installation',
    confirmRetention: 'installation',
  };
  for (const [action, object] of Object.entries(expected)) {
    assert.equal(objectOfAction(action), object, action);
  }
});

test('changes of the installation are all that no pattern names', () => {
  const changes = [...LEAST_ROLES.keys()].filter((name) => !/^(get|list|read|inspect)/.test(name));
  const ofInstallation = changes.filter((name) => objectOfAction(name) === 'installation');
  assert.deepEqual(ofInstallation.toSorted(), [
    'acknowledgeReconciliation',
    'checkReconciliation',
    'confirmRetention',
    'deleteView',
    'endHold',
    'runDoctor',
    'saveView',
    'setReturnPathHost',
    'updateSignInPolicy',
  ]);
});
