/** The operations of the API, and calls of those for operators, for the test of the OpenAPI document. */
import assert from 'node:assert/strict';
import { UNKNOWN_ID } from './api.ts';
import type { ApiResponse, Service } from './service.ts';

export const ENDPOINTS = `
  POST /v1/emails
  POST /v1/emails/batch
  GET /v1/emails
  GET /v1/emails/counts
  GET /v1/emails/{id}/case-file
  GET /v1/receipt-key
  GET /v1/snoozes
  PUT /v1/snoozes/{id}
  DELETE /v1/snoozes/{id}
  GET /v1/emails/{id}
  PATCH /v1/emails/{id}
  POST /v1/emails/{id}/cancel
  POST /v1/emails/cancel
  POST /v1/emails/{id}/share
  GET /v1/emails/{id}/preview
  GET /v1/emails/{id}/events
  GET /v1/emails/{id}/content
  GET /v1/emails/{id}/diagnosis
  GET /v1/emails/{id}/inspection
  GET /v1/emails/{id}/attachments/{number}
  GET /v1/emails/{id}/webhook-deliveries
  GET /v1/events
  GET /v1/recipients
  GET /v1/recipients/{address}
  GET /v1/recipients/{address}/log
  GET /v1/stats
  GET /v1/queue
  GET /v1/queue/providers/{provider}
  POST /v1/queue/hold
  POST /v1/queue/release
  POST /v1/queue/retry
  POST /v1/queue/drop
  DELETE /v1/queue/drops/{id}
  GET /v1/domains
  POST /v1/domains
  GET /v1/domains/{id}
  GET /v1/domains/{id}/dmarc
  PATCH /v1/domains/{id}
  DELETE /v1/domains/{id}
  POST /v1/domains/{id}/verify
  POST /v1/domains/{id}/rotate-dkim
  POST /v1/domains/{id}/rotate-dkim/cancel
  POST /v1/domains/{id}/publish
  GET /v1/connection
  GET /v1/limits
  GET /v1/requests
  GET /v1/requests/{id}
  GET /v1/projects
  POST /v1/projects
  PATCH /v1/projects/{id}
  GET /v1/views
  POST /v1/views
  DELETE /v1/views/{id}
  GET /v1/session
  GET /v1/session/setup
  POST /v1/session
  POST /v1/session/owner
  POST /v1/session/oidc
  POST /v1/session/oidc/start
  POST /v1/session/passkey
  POST /v1/session/passkey/start
  GET /v1/session/passkeys
  POST /v1/session/passkeys
  POST /v1/session/passkeys/start
  DELETE /v1/session/passkeys/{id}
  GET /v1/operator/sign-in-policy
  PATCH /v1/operator/sign-in-policy
  POST /v1/session/reset
  POST /v1/session/password
  DELETE /v1/session
  GET /v1/session/totp
  POST /v1/session/totp
  DELETE /v1/session/totp
  POST /v1/session/totp/confirm
  GET /v1/session/all
  DELETE /v1/session/all
  DELETE /v1/session/all/{id}
  GET /v1/members
  PATCH /v1/members/{id}
  DELETE /v1/members/{id}
  GET /v1/operator/conditions
  GET /v1/operator/reconciliation
  GET /v1/operator/reconciliation/days
  POST /v1/operator/reconciliation/check
  POST /v1/operator/reconciliation/acknowledge
  GET /v1/operator/status
  GET /v1/operator/variables
  GET /v1/operator/doctor
  POST /v1/operator/doctor
  GET /v1/operator/projects
  GET /v1/operator/projects/{id}
  PATCH /v1/operator/projects/{id}
  POST /v1/operator/projects/{id}/resume
  GET /v1/operator/inbound
  GET /v1/operator/inbound/{id}
  GET /v1/operator/provider-blocks
  POST /v1/operator/provider-blocks/{provider}/probe
  GET /v1/operator/tls-results
  GET /v1/operator/return-path-host
  PUT /v1/operator/return-path-host
  GET /v1/operator/retention
  POST /v1/operator/retention/confirm
  GET /v1/operator/hold
  POST /v1/operator/release
  GET /v1/invitations
  POST /v1/invitations
  DELETE /v1/invitations/{id}
  POST /v1/invitations/accept
  GET /v1/audit_log
  GET /v1/webhooks
  POST /v1/webhooks
  GET /v1/webhooks/{id}
  PATCH /v1/webhooks/{id}
  DELETE /v1/webhooks/{id}
  POST /v1/webhooks/{id}/test
  POST /v1/webhooks/{id}/rotate-secret
  POST /v1/webhooks/{id}/replay
  GET /v1/webhooks/{id}/replays/{replay_id}
  GET /v1/webhooks/{id}/deliveries
  POST /v1/webhooks/{id}/deliveries/replay
  GET /v1/webhooks/{id}/statistics
  GET /v1/webhooks/{id}/deliveries/{delivery_id}
  POST /v1/webhooks/{id}/deliveries/{delivery_id}/replay
  GET /v1/templates
  POST /v1/templates
  GET /v1/templates/{id}
  PATCH /v1/templates/{id}
  DELETE /v1/templates/{id}
  GET /v1/templates/{id}/versions
  GET /v1/templates/{id}/versions/{version}
  POST /v1/templates/{id}/publish
  POST /v1/templates/{id}/preview
  POST /v1/templates/translate
  GET /v1/suppressions
  POST /v1/suppressions
  GET /v1/suppressions/{address}
  DELETE /v1/suppressions/{address}
  GET /v1/suppressions/{address}/history
  POST /v1/suppressions/import
  GET /v1/suppressions/export
  GET /v1/api-keys
  POST /v1/api-keys
  GET /v1/api-keys/current
  PATCH /v1/api-keys/{id}
  POST /v1/api-keys/{id}/rotate
  DELETE /v1/api-keys/{id}
  GET /healthz
  GET /readyz`;

type Asks = (id: string, ids?: Record<string, string>, body?: object) => Promise<ApiResponse>;

export async function operatorResponses(
  service: Service,
  asks: Asks,
  project: { id: string },
): Promise<void> {
  await asks('getStatus');
  await asks('listVariables');
  await asks('getSignInPolicy');
  await asks('updateSignInPolicy', {}, { second_factor_required: true });
  await asks('updateSignInPolicy', {}, { second_factor_required: false });
  await asks('getDoctor');
  await asks('runDoctor');
  await asks('listInstallationProjects');
  await asks('getProjectSettings', project);
  const limits = [{ environment: 'live', category: 'sending', limit: { max: 5000, window_s: 60 } }];
  const alert = { bounces: '4%', complaints: null, min: 1000, pause: true };
  const change = { limits, domains_max: 50, storage_max_bytes: 2 ** 30, reputation_alert: alert };
  const { body: set } = await asks('updateProjectSettings', project, {
    ...change,
    content: '7d',
    metadata: '30d',
  });
  assert.deepEqual(
    [set.content, set.kept.metadata, set.domains_max, set.reputation_alert.bounces],
    ['7d', '30d', 50, '4%'],
  );
  const tooLong = await asks('updateProjectSettings', project, {
    domains_max: 60,
    content: '900d',
  });
  assert.deepEqual(
    [tooLong.status, (await asks('getProjectSettings', project)).body.domains_max],
    [422, 50],
    'all of a change is stored, or nothing',
  );
  await asks('resumeProject', project, {});
  await service.sql(`
    insert into inbound_unmatched (slot, id, received_at, report_hash, remote_address, sender, recipient, kind,
                                   size_bytes, content)
    values (0, '${UNKNOWN_ID}', now(), '\\x00', '203.0.113.7', '', 'postmaster@acme.test', 'other', 3, 'Hi.')`);
  const { body: inbound } = await asks('listInbound');
  assert.equal((await asks('getInbound', inbound.data[0])).body.content, 'Hi.');
  await service.sql(`
    insert into provider_blocks (provider, about, subject, refusals, is_clear, senders, category, reply, since,
                                 wait_ms, refused_at, changed_at)
    values ('google', 'address', '192.0.2.1', 3, true, '{acme.test}', 'reputation', '550 no', now(), 1, now(), now())`);
  await asks('listProviderBlocks');
  await asks('probeProvider', { provider: 'google' });
  await asks('listTlsResults');
  await asks('getReturnPathHost');
  await asks('setReturnPathHost', {}, { name: 'mail.acme.test' });
  await asks('getRetention');
  await asks('confirmRetention');
  await asks('getHold');
  await service.sql('update installation set on_hold_since = now()');
  await asks('getHold');
  await asks('endHold', {}, { except_in_doubt: true });
  const day = new Date().toISOString().slice(0, 10);
  await asks('checkReconciliation', {}, { day, walks_queue: true });
  await asks('listReconciledDays');
  await service.sql(`
    update reconciled_days set differences = '[{"kind": "not_queued", "emails": 1, "examples": []}]',
           acknowledged_at = null`);
  const { body: days } = await asks('listReconciledDays');
  assert.equal(days.data[0].state, 'differs');
  await asks('acknowledgeReconciliation', {}, { day: days.data[0].day });
}
