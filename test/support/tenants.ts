/** Projects of different owners in one service, each with a verified domain. */
import assert from 'node:assert/strict';
import { createOrganization, createProject } from '../../src/accounts/projects/project-store.ts';
import { createFullKey, declareVerified } from './api-client.ts';
import { asOwner } from './postgres.ts';
import type { Service } from './service.ts';

/** A project with full keys, and a verified domain in both environments. */
export type Tenant = { projectId: string; live: string; test: string; from: string };

/** Adds a project in its own organization, which sends from `<name>.example`. */
export async function newTenant(service: Service, name: string): Promise<Tenant> {
  const domain = `${name}.example`;
  const tenant = await asOwner(service.address(), async (db) => {
    const organization = await createOrganization(db, name);
    const { id: projectId } = await createProject(db, organization.id, name);
    const live = await createFullKey(db, { projectId, environment: 'live' });
    const test = await createFullKey(db, { projectId, environment: 'test' });
    return { projectId, live, test, from: `hello@${domain}` };
  });
  for (const key of [tenant.live, tenant.test]) {
    const added = await service.request('POST', '/v1/domains', { key, body: { name: domain } });
    assert.equal(added.status, 201, added.text);
    await asOwner(service.address(), (db) => declareVerified(db, added.body.id));
  }
  return tenant;
}
