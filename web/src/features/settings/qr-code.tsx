import type { ReactNode } from 'react';
import { encode } from 'uqr';

/** ISO/IEC 18004 asks for an empty margin of four modules. */
const QUIET_ZONE = 4;

/** Black on white in both themes: some cameras read nothing else. */
export function QrCode({ text, label }: { text: string; label: string }): ReactNode {
  const { data, size } = encode(text, { border: QUIET_ZONE });
  const modules = data.flatMap((row, y) =>
    row.map((isDark, x) => (isDark ? `M${x} ${y}h1v1h-1z` : '')),
  );
  return (
    <svg
      role="img"
      aria-label={label}
      viewBox={`0 0 ${size} ${size}`}
      className="size-48 rounded-md border border-line bg-white"
    >
      <path d={modules.join('')} fill="black" shapeRendering="crispEdges" />
    </svg>
  );
}
