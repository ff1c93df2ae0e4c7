/**
 * Settings of a project that the operator makes: limits, maxima, retention and reputation alert.
 *
 * Guarantee: a change is one transaction. All of it is stored, or nothing.
 */
import type { Limit } from '../../core/limits.ts';
import { entityTagOf, type IsExpected } from '../../core/entity-tag.ts';
import { CHANGED_SINCE, type Refusal } from '../../core/refusals.ts';
import type { ProjectAlertRule } from '../../reputation/alert.ts';
import { type Retention, retentionProblem } from '../../core/retention.ts';
import { type Environment, ENVIRONMENTS } from '../../core/scope.ts';
import { domainCapacity, lockDomainsOfProject, setDomainsMax } from '../../domains/domain-store.ts';
import {
  listLimits,
  type ListedLimit,
  type ScopeCategory,
  setLimit,
} from '../limits/limit-store.ts';
import type { Database, Queryable } from '../../database/database.ts';
import {
  type Alert,
  listAlertRules,
  listAlerts,
  setAlertRule,
} from '../../reputation/reputation-store.ts';
import { findRetention, setRetention } from '../../retention/retention-store.ts';
import { readStorage, setStorageMax, type StorageState } from '../storage/storage-store.ts';

export const SET_CATEGORIES = [
  'sending',
  'recipients',
  'verification',
  'domains',
  'webhooks',
] as const satisfies readonly (ScopeCategory | 'recipients')[];
type SetCategory = (typeof SET_CATEGORIES)[number];

/** Settings of projects without their own. */
export type ProjectDefaults = {
  limits: Readonly<Record<SetCategory, Limit | null>>;
  domainsMax: number;
};

export type ProjectSettings = {
  limits: (ListedLimit<SetCategory> & { environment: Environment })[];
  domainsMax: number;
  storage: StorageState;
  retention: Retention;
  alert: ProjectAlertRule | undefined;
  alerts: Alert[];
};

const ALERTS_MAX = 1_000;

const NO_RULE: ProjectAlertRule = {
  isOn: true,
  bouncesPpm: null,
  complaintsPpm: null,
  emailsMin: null,
  pauses: false,
};

export async function readProjectSettings(
  db: Queryable,
  projectId: string,
  { limits, domainsMax }: ProjectDefaults,
): Promise<ProjectSettings> {
  const defaults = SET_CATEGORIES.map((category) => [category, limits[category]] as const);
  const listed: ProjectSettings['limits'] = [];
  for (const environment of ENVIRONMENTS) {
    const environmentLimits = await listLimits(db, { projectId, environment }, defaults);
    listed.push(...environmentLimits.map((limit) => ({ ...limit, environment })));
  }
  const anyDomain = { projectId, environment: ENVIRONMENTS[0], name: '' };
  return {
    limits: listed,
    domainsMax: (await domainCapacity(db, anyDomain, domainsMax)).max,
    storage: await readStorage(db, projectId),
    retention: await findRetention(db, projectId),
    alert: (await listAlertRules(db)).find((rule) => rule.projectId === projectId),
    alerts: await listAlerts(db, { projectId, limit: ALERTS_MAX }),
  };
}

/** Changes with what `ProjectChange` can change, and not with sent or stored mail or alerts. */
export function tagOfSettings(projectId: string, settings: ProjectSettings): string {
  const { domainsMax, storage, retention, alert = null } = settings;
  const limits = settings.limits.map(({ environment, category, limit, windowS, isOwn }) => [
    environment,
    category,
    limit,
    windowS,
    isOwn,
  ]);
  return entityTagOf([projectId, limits, domainsMax, storage.maxBytes, retention, alert]);
}

/** Absent fields stay unchanged. null restores the default of the installation. */
export type ProjectChange = {
  limits?: readonly { environment: Environment; category: SetCategory; limit: Limit | null }[];
  domainsMax?: number | null;
  storageBytesMax?: number | null;
  retention?: Partial<Retention>;
  alert?: Partial<ProjectAlertRule>;
};

/**
 * Changes the settings, or returns why it changes none. Two changes of one project follow one another.
 * @param installation.retention the longest retention that a project may have
 */
export function changeProjectSettings(
  db: Database,
  {
    projectId,
    installation,
    isExpected,
  }: {
    projectId: string;
    installation: ProjectDefaults & { retention: Retention };
    isExpected: IsExpected;
  },
  change: ProjectChange,
): Promise<Refusal | null> {
  return db.transaction(async (tx) => {
    await lockDomainsOfProject(tx, projectId);
    const current = await readProjectSettings(tx, projectId, installation);
    if (!isExpected(tagOfSettings(projectId, current))) return CHANGED_SINCE;
    if (change.retention !== undefined) {
      const own = { ...(await findRetention(tx, projectId)), ...change.retention };
      const message = retentionProblem(own, installation.retention);
      if (message !== null) return { refused: 'validation_error', message };
      await setRetention(tx, { projectId, ...own });
    }
    for (const { limit, ...scope } of change.limits ?? []) {
      await setLimit(tx, { projectId, ...scope }, limit);
    }
    const { domainsMax, storageBytesMax, alert } = change;
    if (domainsMax !== undefined) await setDomainsMax(tx, projectId, domainsMax);
    if (storageBytesMax !== undefined) await setStorageMax(tx, projectId, storageBytesMax);
    if (alert !== undefined) {
      const rules = await listAlertRules(tx);
      const own = rules.find((rule) => rule.projectId === projectId);
      await setAlertRule(tx, projectId, { ...NO_RULE, ...own, ...alert });
    }
    return null;
  });
}
