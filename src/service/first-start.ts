/**
 * The first start: creates a project with a verified test domain and a test key, so that an email can be sent
 * immediately, and a sign-in link for the owner. The functions that create all other projects, domains and keys do
 * this.
 */
import { createOwnerLink } from '../accounts/sign-in/sign-in.ts';
import type { Config } from '../config/config.ts';
import { isRefusal } from '../core/refusals.ts';
import type { Scope } from '../core/scope.ts';
import type { World } from '../lib/world.ts';
import type { Database } from '../database/database.ts';
import { createKey, onFirstStart } from '../accounts/keys/key-store.ts';
import {
  createOrganization,
  createProject,
  listAllProjects,
} from '../accounts/projects/project-store.ts';
import type { SecretBox } from '../secrets/secret-box.ts';
import { FIRST_DOMAIN } from './start/first-domain.ts';

const FIRST_NAME = 'Acme';

export type FirstStart = {
  projectId: string;
  /** The text of the key, which is shown once and not stored. */
  testKey: string;
  /** Path of a single-use link that creates the owner; null when there is an owner. */
  ownerLink: string | null;
};

type FirstStartOptions = {
  secrets: SecretBox;
  world: World;
  config: Pick<Config, 'hostname' | 'sources' | 'domainsMax' | 'inboundPort'>;
};

/** Returns null when this database was used before. */
export async function seedFirstStart(
  db: Database,
  parts: FirstStartOptions,
): Promise<FirstStart | null> {
  const created = await onFirstStart(db, async (tx) => {
    const projectId = await findOrCreateProject(db);
    const scope: Scope = { projectId, environment: 'test' };
    await addVerifiedDomain(db, scope, parts);
    const rights = { permission: 'full_access', domain: null, expiresAt: null } as const;
    const { text } = await createKey(tx, scope, { name: 'First test key', ...rights });
    return { projectId, testKey: text };
  });
  return created && { ...created, ownerLink: await createOwnerLink(db) };
}

async function findOrCreateProject(db: Database): Promise<string> {
  const [existing] = await listAllProjects(db);
  if (existing) return existing.id;
  return db.transaction(async (tx) => {
    const organization = await createOrganization(tx, FIRST_NAME);
    return (await createProject(tx, organization.id, FIRST_NAME)).id;
  });
}

async function addVerifiedDomain(
  db: Database,
  scope: Scope,
  parts: FirstStartOptions,
): Promise<void> {
  // Only the first of all starts needs this code.
  const [{ createDomain }, { verifyDomain }, { createResolver }] = await Promise.all([
    import('../domains/domains.ts'),
    import('../domains/domain-check.ts'),
    import('../net/dns/resolver.ts'),
  ]);
  const domain = await createDomain(db, scope, { ...parts, name: FIRST_DOMAIN });
  if (isRefusal(domain)) return; // created by an interrupted first start
  const resolver = createResolver({ servers: [], world: parts.world });
  await verifyDomain({ db, resolver, config: parts.config }, domain);
  resolver.close();
}
