/**
 * Fills the database of a run before the load starts: the project of the load, with keys, verified domains, endpoints,
 * a template and suppressed addresses; and the project of the attacker.
 */
import { createKey } from '../../src/accounts/keys/key-store.ts';
import { PREVIEWED_TEMPLATE } from '../support/hostile-shapes.ts';
import { asOwner } from '../support/postgres.ts';
import type { Service } from '../support/service.ts';
import { newTenant } from '../support/tenants.ts';
import type { AttackerKeys } from './attacker/attacks.ts';
import { LEAVING_DOMAINS, LIVE_DOMAIN, SUPPRESSED_BEFORE, TEMPLATE } from './load/emails.ts';
import { ENDPOINTS, type Hooks } from './receivers/webhook-endpoints.ts';
import type { LiveKey } from './load/load.ts';

export type Fixtures = {
  testKey: string;
  liveKey: LiveKey;
  /** Key that may do everything in the live environment. */
  adminKey: string;
  /** Keys of the attacker, which is a second project. */
  attacker: AttackerKeys;
  /** Ids of the sending domains that a fault removes, by name. */
  leaving: ReadonlyMap<string, string>;
};

/** Project that the first start of the service creates. */
const OF_ACME = ['--project', 'Acme'];
/** Limit below the number of emails that the attacker sends (attacker/attacks.ts). */
const TEST_LIMIT_OF_ATTACKER = '20/60';

export async function createFixtures(service: Service, hooks: Hooks): Promise<Fixtures> {
  const attacker = await createAttacker(service);
  const key = await service.liveKey();
  for (const name of [LIVE_DOMAIN, ...LEAVING_DOMAINS]) await service.addLiveDomain(name);
  const { body: domains } = await service.request('GET', '/v1/domains', { key });
  const leaving = new Map<string, string>(
    domains.data
      .filter(({ name }: { name: string }) => LEAVING_DOMAINS.includes(name))
      .map(({ name, id }: { name: string; id: string }) => [name, id]),
  );
  for (const address of SUPPRESSED_BEFORE) await suppress(service, address);
  const keys = {
    acme: { live: key, test: service.testKey },
    attacker: { live: attacker.live, test: attacker.test },
  };
  for (const { path, owner, environment, types } of ENDPOINTS) {
    const { status, body, text } = await service.request('POST', '/v1/webhooks', {
      key: keys[owner][environment],
      body: { url: hooks.url + path, ...(types && { events: types }) },
    });
    if (status !== 201) throw new Error(`no endpoint: ${text}`);
    hooks.setSecret(path, body.signing_secret);
  }
  for (const own of [key, service.testKey]) await publishTemplate(service, own);
  const liveKey = await newLiveKey(service);
  return { liveKey, testKey: service.testKey, adminKey: key, attacker, leaving };
}

/**
 * Creates the attacker's project: keys with and without rights, and a limit in the test environment that the attacker
 * exceeds.
 */
async function createAttacker(service: Service): Promise<AttackerKeys> {
  const tenant = await newTenant(service, 'attacker');
  const { projectId, test, from } = tenant;
  const domain = from.slice(from.indexOf('@') + 1);
  const { text: weakest } = await asOwner(service.address(), (db) =>
    createKey(
      db,
      { projectId, environment: 'live' },
      { name: 'Weakest', permission: 'sending_access', domain, expiresAt: null },
    ),
  );
  const limited = ['--project', projectId, '--environment', 'test'];
  await service.cliJson('projects', 'set-limit', TEST_LIMIT_OF_ATTACKER, ...limited);
  const path = '/v1/templates';
  const made = await service.request('POST', path, { key: test, body: PREVIEWED_TEMPLATE });
  if (made.status !== 201) throw new Error(`no template: ${made.text}`);
  return { ...tenant, weakest };
}

async function publishTemplate(service: Service, key: string): Promise<void> {
  const { body, text } = await service.request('POST', '/v1/templates', { key, body: TEMPLATE });
  const published = await service.request('POST', `/v1/templates/${body.id}/publish`, { key });
  if (published.status !== 200) throw new Error(`no template: ${text} ${published.text}`);
}

/** Returns a new key for the load alone, because a fault will revoke it. */
export function newLiveKey(service: Service): Promise<LiveKey> {
  const rights = ['--environment', 'live', '--permission', 'sending_access'];
  return service.cliJson('keys', 'create', ...OF_ACME, ...rights);
}

export async function suppress(service: Service, address: string): Promise<void> {
  await service.cliJson('suppressions', 'add', ...OF_ACME, address);
}
