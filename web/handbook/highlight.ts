/** Colours the code of the documents, by classes that handbook.css defines. */
import highlightJs from 'highlight.js/lib/core';
import bash from 'highlight.js/lib/languages/bash';
import csharp from 'highlight.js/lib/languages/csharp';
import go from 'highlight.js/lib/languages/go';
import http from 'highlight.js/lib/languages/http';
import ini from 'highlight.js/lib/languages/ini';
import java from 'highlight.js/lib/languages/java';
import javascript from 'highlight.js/lib/languages/javascript';
import json from 'highlight.js/lib/languages/json';
import nginx from 'highlight.js/lib/languages/nginx';
import php from 'highlight.js/lib/languages/php';
import python from 'highlight.js/lib/languages/python';
import ruby from 'highlight.js/lib/languages/ruby';
import sql from 'highlight.js/lib/languages/sql';
import typescript from 'highlight.js/lib/languages/typescript';
import yaml from 'highlight.js/lib/languages/yaml';
import { escapeHtml } from '../../src/http/dashboard/html-page.ts';

const LANGUAGES = {
  csharp,
  go,
  http,
  java,
  js: javascript,
  json,
  nginx,
  php,
  properties: ini,
  python,
  ruby,
  sh: bash,
  sql,
  ts: typescript,
  yaml,
};
for (const [name, language] of Object.entries(LANGUAGES))
  highlightJs.registerLanguage(name, language);

/** Returns code as HTML. Code of a language that is not in the list has no colours. */
export function highlight(code: string, language: string): string {
  if (highlightJs.getLanguage(language) === undefined) return escapeHtml(code);
  return highlightJs.highlight(code, { language }).value;
}
