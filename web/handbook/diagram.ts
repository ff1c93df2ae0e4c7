/**
 * Draws a Mermaid diagram as SVG when the handbook is built, without a browser. Its colours are variables that
 * handbook.css sets, so the drawing follows the theme. It has no style element, which the policy of the pages forbids.
 */
import { renderMermaid } from 'beautiful-mermaid';

/** @param name makes ids unique in the page */
export async function renderDiagram(source: string, name: string): Promise<string> {
  const svg = await renderMermaid(source);
  const label = source.trim().split('\n', 1)[0]!.startsWith('stateDiagram')
    ? 'Diagram of states; the text around it says the same'
    : 'Diagram; the text around it says the same';
  return svg
    .replace(/<style>[\s\S]*?<\/style>/, '')
    .replace(/(<svg\b[^>]*?) style="[^"]*"/, `$1 role="img" aria-label="${label}"`)
    .replaceAll(/\b(id="|url\(#)arrowhead/g, `$1${name}-arrowhead`);
}
