/** Templates as the API returns them. */
import { createHash } from 'node:crypto';
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
    etag: tagOfTemplate(head),
  };
}

/** Enough that two states of one template never have the same tag. */
const TAG_CHARACTERS = 22;

/**
 * Returns the entity tag (RFC 9110 §8.8.3), with its quotes. It changes with the names, with the content of the latest
 * version, and with the published version.
 */
export function tagOfTemplate(head: TemplateHead): string {
  const hash = createHash('sha256').update(JSON.stringify(head)).digest('base64url');
  return `"${hash.slice(0, TAG_CHARACTERS)}"`;
}

export function versionToWire({ version, subject, createdAt, publishedAt }: VersionSummary) {
  return {
    object: 'template_version' as const,
    version,
    subject,
    created_at: createdAt.toISOString(),
    published_at: publishedAt?.toISOString() ?? null,
  };
}

export function renderedToWire(rendered: RenderedTemplate) {
  return { object: 'rendered_template' as const, ...rendered };
}
