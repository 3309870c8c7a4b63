import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";

export interface Series {
    label: string;
    /** Name of a colour of the style sheet. */
    colour: string;
    bars?: boolean;
    values: (number | null)[];
}

interface Props {
    label: string;
    times: number[];
    series: Series[];
    height: number;
    show: (value: number) => string;
    /** Gets the span of time that was marked, in seconds since 1970. */
    marked?: (from: number, to: number) => void;
}

/** Of ticks: frames and bits are whole. */
const STEPS = Array.from({ length: 14 }, (_, zeros) => [1, 2, 5].map((one) => one * 10 ** zeros)).flat();

function colour(name: string): string {
    return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

function options({ series, height, show, marked }: Props, width: number): uPlot.Options {
    const [grid, ink] = [colour("line"), colour("faint")];
    const axis = { stroke: ink, grid: { stroke: grid, width: 1 }, ticks: { show: false } };
    const font = "12px system-ui, sans-serif";
    const bars = uPlot.paths.bars?.({ size: [0.9, 24, 3] });
    const line = uPlot.paths.linear?.();
    return {
        width,
        height,
        legend: { show: false },
        cursor: { sync: { key: "ringside" }, drag: { x: marked !== undefined, y: false } },
        scales: { y: { range: (_, __, max) => [0, Math.max(max * 1.08, 1)] } },
        axes: [
            { ...axis, font, size: 28, values: "{HH}:{mm}:{ss}", space: 90 },
            { ...axis, font, size: 78, incrs: STEPS, values: (_, at) => at.map(show), space: 24 },
        ],
        series: [
            {},
            ...series.map((one) => ({
                label: one.label,
                stroke: colour(one.colour),
                fill: one.bars ? colour(one.colour) : `${colour(one.colour)}22`,
                width: one.bars ? 0 : 1.75,
                paths: one.bars ? bars : line,
                points: { show: false },
                spanGaps: false,
            })),
        ],
        hooks: {
            setSelect: [
                (plot) => {
                    const { left, width: span } = plot.select;
                    if (!marked || span < 3) return;
                    const at = (x: number) => plot.posToVal(x, "x");
                    marked(at(left), at(left + span));
                },
            ],
        },
    };
}

/** Values over time. A table of the same numbers is elsewhere on the page; this is a picture. */
export function Chart(props: Props) {
    const place = useRef<HTMLDivElement>(null);
    const plot = useRef<uPlot | null>(null);
    const { times, series } = props;
    const data = [times, ...series.map((one) => one.values)] as uPlot.AlignedData;
    const latest = useRef({ props, data });
    latest.current = { props, data };
    useEffect(() => {
        const element = place.current as HTMLDivElement;
        const draw = () => {
            plot.current?.destroy();
            const { props: now, data: values } = latest.current;
            plot.current = new uPlot(options(now, element.clientWidth), values, element);
        };
        draw();
        const watcher = new ResizeObserver(() => {
            const { height } = latest.current.props;
            plot.current?.setSize({ width: element.clientWidth, height });
        });
        watcher.observe(element);
        const system = matchMedia("(prefers-color-scheme: dark)");
        system.addEventListener("change", draw);
        addEventListener("theme", draw);
        return () => {
            watcher.disconnect();
            system.removeEventListener("change", draw);
            removeEventListener("theme", draw);
            plot.current?.destroy();
            plot.current = null;
        };
    }, []);
    // A mark stays until it is gone: new values do not move it away.
    useEffect(() => {
        const isMarked = (plot.current?.select.width ?? 0) > 0;
        if (!isMarked) plot.current?.setData(data);
    }, [data]);
    return <div class="chart" ref={place} role="img" aria-label={props.label} />;
}
