/** Routes of projects for operators: list them, and read and change their settings. */
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { z } from 'zod';
import { effectiveAlertRule } from '../../reputation/alert.ts';
import { alertToWire, alertRuleToWire } from '../../reputation/wire.ts';
import { retentionInEffect, showPeriod } from '../../core/retention.ts';
import { isId } from '../../database/ids.ts';
import type { Queryable } from '../../database/database.ts';
import {
  changeProjectSettings,
  type ProjectChange,
  readProjectSettings,
  tagOfSettings,
} from './settings-store.ts';
import { findProject, listAllProjects, type Project } from './project-store.ts';
import { listAlertRules, listAlerts } from '../../reputation/reputation-store.ts';
import { listStorage, type StorageState } from '../storage/storage-store.ts';
import { notFound, refuse } from '../../http/errors.ts';
import { requireOperator } from '../../http/operators.ts';
import { expectedBy, failures, idParams, preconditionHeaders, tagged } from '../../http/schemas.ts';
import { projectList, settings, settingsChange } from './settings-schemas.ts';
import type { App, HttpServices } from '../../http/services.ts';
import { BY_SESSION } from '../sessions/http-sessions.ts';

const TAGS = ['Operator'];
const ALERTS_MAX = 1_000;

const NOTHING_STORED: StorageState = { usedBytes: 0, maxBytes: null };

export function registerProjectSettingRoutes(app: App, services: HttpServices): void {
  registerList(app, services);
  registerReadSettings(app, services);
  registerChangeSettings(app, services);
}

function registerList(app: App, { db }: HttpServices): void {
  app.get('/v1/operator/projects', {
    config: { access: 'session' },
    preHandler: requireOperator(db),
    schema: {
      summary: 'List all projects of the installation',
      description:
        'Lists all projects with their stored bytes, their reputation alert, and the domains above its ' +
        'thresholds. For owners.',
      operationId: 'listInstallationProjects',
      tags: TAGS,
      security: BY_SESSION,
      response: { 200: projectList, ...failures(404) },
    },
    handler: async () => {
      const [projects, rules, alerts, stored] = await Promise.all([
        listAllProjects(db),
        listAlertRules(db),
        listAlerts(db, { projectId: null, limit: ALERTS_MAX }),
        listStorage(db),
      ]);
      const data = projects.map((project) => {
        const isOf = ({ projectId }: { projectId: string }) => projectId === project.id;
        return {
          ...projectToWire(project),
          reputation_alert: alertRuleToWire(effectiveAlertRule(rules.find(isOf))),
          warnings: alerts.filter(isOf).map(alertToWire),
          storage: storageToWire(stored.find(isOf) ?? NOTHING_STORED),
        };
      });
      return { object: 'list' as const, data, has_more: false };
    },
  });
}

function registerReadSettings(app: App, services: HttpServices): void {
  const { db } = services;
  app.get('/v1/operator/projects/:id', {
    config: { access: 'session' },
    preHandler: requireOperator(db),
    schema: {
      summary: 'Read the settings of a project',
      description:
        'Returns the limits, maxima, retention and reputation alert in effect. For owners.',
      operationId: 'getProjectSettings',
      tags: TAGS,
      security: BY_SESSION,
      params: idParams('project'),
      response: { 200: settings, ...failures(404) },
    },
    handler: async (request, reply) => {
      const project = await findProjectInPath(db, request);
      return project === null ? notFound(reply, 'project') : sendSettings(reply, services, project);
    },
  });
}

function registerChangeSettings(app: App, services: HttpServices): void {
  const { db, config } = services;
  app.patch('/v1/operator/projects/:id', {
    config: { access: 'session' },
    preHandler: requireOperator(db),
    schema: {
      summary: 'Change the settings of a project',
      description:
        'Changes only the given fields. Null restores the default of the installation. All given fields ' +
        'change, or none. For owners.',
      operationId: 'updateProjectSettings',
      tags: TAGS,
      security: BY_SESSION,
      params: idParams('project'),
      headers: preconditionHeaders,
      body: settingsChange,
      response: { 200: settings, ...failures(400, 404, 412, 413, 415, 422) },
    },
    handler: async (request, reply) => {
      const project = await findProjectInPath(db, request);
      if (project === null) return notFound(reply, 'project');
      const { id: projectId } = project;
      const scope = { projectId, installation: config, isExpected: expectedBy(request) };
      const refusal = await changeProjectSettings(db, scope, parseChange(request.body));
      return refusal === null ? sendSettings(reply, services, project) : refuse(reply, refusal);
    },
  });
}

async function findProjectInPath(
  db: Queryable,
  { params }: FastifyRequest,
): Promise<Project | null> {
  const { id } = params as { id: string };
  return isId(id) ? findProject(db, id) : null;
}

async function sendSettings(reply: FastifyReply, { db, config }: HttpServices, project: Project) {
  const stored = await readProjectSettings(db, project.id, config);
  const { limits, domainsMax, storage, retention, alert, alerts } = stored;
  const kept = retentionInEffect(retention, config.retention);
  return tagged(reply, {
    object: 'project_settings' as const,
    project_id: project.id,
    name: project.name,
    limits: limits.map(({ environment, category, limit: max, windowS, isOwn }) => ({
      environment,
      category,
      limit: { max, window_s: windowS },
      is_own: isOwn,
    })),
    domains_max: domainsMax,
    storage: storageToWire(storage),
    content: retention.contentH === null ? null : showPeriod(retention.contentH),
    metadata: retention.metadataH === null ? null : showPeriod(retention.metadataH),
    kept: { content: showPeriod(kept.contentH), metadata: showPeriod(kept.metadataH) },
    reputation_alert: alertRuleToWire(effectiveAlertRule(alert)),
    warnings: alerts.map(alertToWire),
    etag: tagOfSettings(project.id, stored),
  });
}

function projectToWire({ id, name, createdAt }: Project) {
  return { object: 'project' as const, id, name, created_at: createdAt.toISOString() };
}

function storageToWire({ usedBytes, maxBytes }: StorageState) {
  return { used_bytes: usedBytes, max_bytes: maxBytes };
}

function parseChange(body: z.output<typeof settingsChange>): ProjectChange {
  const { limits, content, metadata, reputation_alert: alert } = body;
  return withoutUndefined({
    limits: limits?.map(({ environment, category, limit }) => ({
      environment,
      category,
      limit: limit && { max: limit.max, windowS: limit.window_s },
    })),
    domainsMax: body.domains_max,
    storageBytesMax: body.storage_max_bytes,
    retention:
      content === undefined && metadata === undefined
        ? undefined
        : withoutUndefined({ contentH: content, metadataH: metadata }),
    alert:
      alert &&
      withoutUndefined({
        isOn: alert.on,
        bouncesPpm: alert.bounces,
        complaintsPpm: alert.complaints,
        emailsMin: alert.min,
        pauses: alert.pause,
      }),
  });
}

type Present<Fields> = { [Name in keyof Fields]?: Exclude<Fields[Name], undefined> };

/** Drops undefined fields, so that they stay unchanged. */
function withoutUndefined<Fields extends object>(fields: Fields): Present<Fields> {
  const present = Object.entries(fields).filter(([, value]) => value !== undefined);
  return Object.fromEntries(present) as Present<Fields>;
}
