/** Templates as the API returns them. */
import { entityTagOf } from '../core/entity-tag.ts';
import type { Scope } from '../core/scope.ts';
import type { TemplateHead, VersionSummary } from './template-store.ts';
import type { RenderedTemplate } from './rendering.ts';
import type { Template } from './templates.ts';

export function templateHeadToWire(head: TemplateHead, { environment }: Scope) {
  return {
    object: 'template' as const,
    id: head.id,
    name: head.name,
    alias: head.alias,
    latest_version: head.latestVersion,
    published_version: head.publishedVersion,
    environment,
    created_at: head.createdAt.toISOString(),
    updated_at: head.updatedAt.toISOString(),
  };
}

export function templateToWire({ head, content }: Template, scope: Scope) {
  const { version, subject, html, text, variables, publishedAt } = content;
  return {
    ...templateHeadToWire(head, scope),
    version,
    subject,
    html,
    text,
    variables: [...variables],
    published_at: publishedAt?.toISOString() ?? null,
    etag: entityTagOf(head),
  };
}

export function versionToWire(summary: VersionSummary) {
  const { version, subject, createdAt, publishedAt, savedBy, savedAt } = summary;
  return {
    object: 'template_version' as const,
    version,
    subject,
    created_at: createdAt.toISOString(),
    saved_by: savedBy,
    saved_at: savedAt?.toISOString() ?? null,
    published_at: publishedAt?.toISOString() ?? null,
  };
}

export function renderedToWire(rendered: RenderedTemplate) {
  return { object: 'rendered_template' as const, ...rendered };
}
