"""Units of labelled data: spelled alike they pass, others are converted or refused."""

import json
import sys
import warnings

import numpy as np
import pytest

from command_data import content, pd, xr
from ctfa import cli, labelled
from ctfa.labelled._places import read_neighbours
from ctfa.labelled._units import conversion, spelled
from labelled_tasks import cells, tasks_along

QUICK = {"target": "flux", "held_out": None, "max_loss": 1.5, "aggregate": "mean"}
LIBRARIES = ("cf_units", "pint")


@pytest.fixture(params=LIBRARIES)
def library(request, monkeypatch):
    """Each library that converts, alone."""
    pytest.importorskip(request.param)
    for other in LIBRARIES:
        if other != request.param:
            monkeypatch.setitem(sys.modules, other, None)
    return request.param


@pytest.fixture
def nobody(monkeypatch):
    """No library that converts."""
    for name in LIBRARIES:
        monkeypatch.setitem(sys.modules, name, None)


def stations(n_rows=72):
    """Heat fluxes of eight stations, from their wind and temperature; as another program has it."""
    rng = np.random.default_rng(0)
    time = pd.date_range("2001-01-01", periods=n_rows, freq="MS")
    wind = 4.0 + 2.0 * rng.normal(size=(n_rows, 8))
    air = (
        12.0 + 8.0 * np.sin(np.arange(n_rows) / 6.0 * np.pi)[:, None] + rng.normal(size=wind.shape)
    )
    flux = 5.0 * wind - 2.0 * air + rng.normal(size=wind.shape)
    dims = ("time", "station")
    return xr.Dataset(
        {
            "flux": (dims, flux, {"units": "W m-2", "long_name": "heat flux"}),
            "uwnd": (dims, wind, {"units": "m s-1", "long_name": "eastward wind"}),
            "t2m": (dims, air, {"units": "degC", "standard_name": "air_temperature"}),
        },
        coords={"time": time, "station": [f"s{i}" for i in range(8)]},
    )


@pytest.fixture(scope="module")
def data():
    return stations()


@pytest.fixture(scope="module")
def fit(data):
    return labelled.fit(data, **QUICK)


def changed(data, name, units, factor=1.0, offset=0.0):
    """The same data with one variable in other units."""
    attrs = {**data[name].attrs, "units": units}
    return data.assign({name: (data[name] * factor + offset).assign_attrs(attrs)})


def told(work):
    """What some work returns, and what it says on the way."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        found = work()
    return found, [str(w.message) for w in said]


def quietly(fit, data):
    return told(lambda: fit.predict(data))


OTHERS = [
    ("uwnd", "cm s-1", 100.0, 0.0),
    ("uwnd", "km h-1", 3.6, 0.0),
    ("uwnd", "km/hr", 3.6, 0.0),
    ("uwnd", "knots", 3600.0 / 1852.0, 0.0),
    ("uwnd", "mph", 3600.0 / 1609.344, 0.0),
    ("uwnd", "0.01 m/s", 100.0, 0.0),
    ("t2m", "K", 1.0, 273.15),
    ("t2m", "kelvin", 1.0, 273.15),
    ("t2m", "degF", 1.8, 32.0),
    ("t2m", "degrees Fahrenheit", 1.8, 32.0),
]


@pytest.mark.parametrize(("name", "units", "factor", "offset"), OTHERS)
def test_the_same_weather_in_other_units_is_predicted_the_same(
    data, fit, library, name, units, factor, offset
):
    found, said = quietly(fit, changed(data, name, units, factor, offset))
    np.testing.assert_allclose(found, fit.predict(data), rtol=1e-10)
    assert found.attrs == data.flux.attrs
    assert len(said) == 1
    assert f"{name} is converted from {units!r} to {data[name].units!r}" in said[0]


@pytest.mark.more
@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("m s-1", "m/s"),
        ("m s-1", "m s**-1"),
        ("m s-1", "m·s⁻¹"),
        ("m s-1", "metres per second"),
        ("degC", "celsius"),
        ("degC", "degrees_C"),
        ("degC", "°C"),
        ("degC", "Degrees Celsius"),
        ("degC", "C"),
        ("K", "kelvin"),
        ("1", ""),
        ("1", "dimensionless"),
        ("1", "(0 - 1)"),
        ("kg kg-1", "1"),
        ("degrees_north", "degree"),
        ("W m-2", "W/m^2"),
        ("kg m-2 s-1", "kg/m2/s"),
        ("kg m-2 s-1", "kg/(m2 s)"),
        ("mm day-1", "mm/d"),
        ("m", "m of water equivalent"),
        ("%", "percent"),
        ("mb", "millibars"),
        ("µg m-3", "ug/m3"),
    ],
)
def test_another_spelling_is_no_other_unit(data, nobody, one, other):
    assert spelled(one) == spelled(other)
    given = changed(data, "uwnd", one)
    fit = labelled.fit(given, **QUICK)
    found = fit.predict(changed(data, "uwnd", other))  # a warning would be an error
    np.testing.assert_array_equal(found, fit.predict(given))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("mm", "Mm"),
        ("m s-1", "m s-2"),
        ("m s", "m/s"),
        ("degC", "degF"),
        ("K", "degC"),
        ("g", "kg"),
    ],
)
def test_units_that_look_alike_are_told_apart(one, other):
    assert spelled(one) != spelled(other)


def test_units_of_the_same_size_pass_in_silence(data, library):
    fit = labelled.fit(changed(data, "uwnd", "hPa"), **QUICK)
    fit.predict(changed(data, "uwnd", "mbar"))
    assert conversion("force", {"units": "N"}, {"units": "kg m s-2"}) is None


@pytest.mark.parametrize(
    ("units", "reason"),
    [
        ("K", "measures something else: give uwnd in 'm s-1'"),
        ("1", "measures something else"),
        ("furlongs of hay", "cannot read 'furlongs of hay'"),
        ("m month-1", "a month or a year has no fixed length"),
        ("m^9^9^9", "cannot read"),
    ],
)
def test_units_that_do_not_go_together_are_refused(data, fit, library, units, reason):
    with pytest.raises(ValueError, match=r"uwnd is in .*, in fit it was in 'm s-1'") as refused:
        fit.predict(changed(data, "uwnd", units))
    assert reason in str(refused.value)


def test_without_a_library_other_units_are_refused(data, fit, nobody):
    with pytest.raises(
        ValueError, match=r"uwnd is in 'cm s-1', in fit it was in 'm s-1': .*install"
    ):
        fit.predict(changed(data, "uwnd", "cm s-1", 100.0))


def test_months_and_years_convert_among_themselves(library):
    step = conversion("rain", {"units": "mm/month"}, {"units": "cm year-1"})
    assert step == pytest.approx((1.2, 0.0, False))


def test_units_that_only_fit_knows_are_said_once(data, fit):
    bare = data.copy()
    bare.uwnd.attrs, bare.t2m.attrs = {}, {"units": ""}
    found, said = quietly(fit, bare)
    np.testing.assert_array_equal(found, fit.predict(data))
    assert said == [
        "the data to predict from do not say the units of uwnd ('m s-1'), t2m ('degC'): they are "
        "taken to be those of fit."
    ]


def test_units_that_fit_did_not_know_pass_in_silence(data):
    bare = data.copy()
    bare.uwnd.attrs = {}
    fit = labelled.fit(bare, **QUICK)
    fit.predict(changed(data, "uwnd", "cm s-1"))  # a warning would be an error


@pytest.mark.parametrize(
    "attrs",
    [
        {"standard_name": "air_temperature_anomaly"},
        {"long_name": "standard deviation of 2 m temperature"},
        {"cell_methods": "time: standard_deviation"},
        {"cell_methods": "time: range (interval: 1 day)"},
        {"units_metadata": "temperature: difference"},
    ],
)
def test_differences_of_temperatures_have_no_offset(data, library, attrs):
    spread = data.assign(t2m=(data.t2m / 10.0).assign_attrs({**attrs, "units": "K"}))
    fit = labelled.fit(spread, **QUICK)
    for units, factor in (("degC", 1.0), ("degF", 1.8)):
        found, said = quietly(fit, changed(spread, "t2m", units, factor))
        np.testing.assert_allclose(found, fit.predict(spread), rtol=1e-10)
        assert "as a difference of temperatures" in said[0]


def test_rates_of_temperature_have_no_offset(library):
    step = conversion("heating", {"units": "degF/h"}, {"units": "K s-1"})
    assert step == pytest.approx((5.0 / 9.0 / 3600.0, 0.0, False))


def test_a_temperature_and_a_difference_of_two_are_not_converted(library):
    scale = {"units": "K", "units_metadata": "temperature: on_scale"}
    difference = {"units": "degC", "units_metadata": "temperature: difference"}
    with pytest.raises(ValueError, match="calls one a difference"):
        conversion("t2m", difference, scale)
    said = {"units": "degC", "long_name": "anomaly", "units_metadata": "temperature: on_scale"}
    assert conversion("t2m", said, scale) == pytest.approx((1.0, 273.15, False))


def test_logarithms_are_not_scaled(library):
    with pytest.raises(ValueError, match="echo is in 'dBZ'"):
        conversion("echo", {"units": "dBZ"}, {"units": "mm6 m-3"})


def test_packed_integers_are_converted_after_unpacking(data, fit, library, tmp_path):
    other = changed(changed(data, "uwnd", "cm s-1", 100.0), "t2m", "K", 1.0, 273.15)
    packed = {"dtype": "i2", "scale_factor": 0.5, "add_offset": 300.0, "_FillValue": -32768}
    cold = {"dtype": "i2", "scale_factor": 0.01, "add_offset": 280.0, "_FillValue": -32768}
    other.to_netcdf(
        tmp_path / "packed.nc", engine="h5netcdf", encoding={"uwnd": packed, "t2m": cold}
    )
    found, said = quietly(fit, labelled.read(tmp_path / "packed.nc"))
    # Half a step of packing, by what the model makes of it.
    np.testing.assert_allclose(found, fit.predict(data), atol=5.5 * 0.0025 + 2.5 * 0.005)
    assert len(said) == 2


def test_single_precision_is_converted_in_double(data, fit, library):
    single = changed(data, "t2m", "K", 1.0, 273.15).astype(np.float32)
    exact = single.t2m.astype(np.float64) - 273.15
    wanted = fit.predict(data.assign(uwnd=single.uwnd, t2m=exact.assign_attrs(data.t2m.attrs)))
    np.testing.assert_allclose(quietly(fit, single)[0], wanted, rtol=1e-12)


def test_dask_is_converted_when_it_is_computed(data, fit, library):
    dask = pytest.importorskip("dask")
    other = changed(data, "uwnd", "cm s-1", 100.0).chunk(time=24)

    def refuse(*_, **__):
        raise AssertionError("computed")

    with dask.config.set(scheduler=refuse):
        found, _ = quietly(fit, other)
    assert found.chunks[0] == (24, 24, 24)
    np.testing.assert_allclose(found.compute(), fit.predict(data), rtol=1e-10)
    with dask.config.set(scheduler=refuse), pytest.raises(ValueError, match="uwnd is in 'K'"):
        fit.predict(changed(other, "uwnd", "K"))


def test_a_model_read_from_its_file_knows_its_units(data, fit, library, tmp_path):
    fit.save(tmp_path / "flux.ctfa")
    again = labelled.load(tmp_path / "flux.ctfa")
    found, _ = quietly(again, changed(data, "uwnd", "cm s-1", 100.0))
    np.testing.assert_allclose(found, fit.predict(data), rtol=1e-10)
    assert again.coef.feature_units.values.tolist() == ["m s-1", "degC"]


def test_features_along_a_dimension_are_converted_one_by_one(data, library):
    def drivers(wind_units, factor):
        array = xr.concat([data.uwnd.mean("station") * factor, data.t2m.mean("station")], "driver")
        coords = {"driver": ["wind", "air"], "units": ("driver", [wind_units, "degC"])}
        return array.transpose("time", "driver").drop_attrs().assign_coords(coords)

    fit = labelled.fit(data.flux, features=drivers("m s-1", 1.0), held_out=None, max_loss=1.5)
    found, said = quietly(fit, drivers("cm s-1", 100.0))
    np.testing.assert_allclose(found, fit.predict(drivers("m s-1", 1.0)), rtol=1e-10)
    assert len(said) == 1
    assert said[0].startswith("wind is converted")


def test_quantities_of_pint_are_numbers_with_units(data, fit):
    pint = pytest.importorskip("pint")
    quantity = pint.application_registry.Quantity

    def quantities(unit, factor):
        wind = quantity(data.uwnd.values * factor, unit)
        return data.assign(uwnd=(data.uwnd.dims, wind), t2m=data.t2m)

    same = labelled.fit(quantities("m/s", 1.0), **QUICK)
    assert same.plan.slots[0].units == "m/s"
    np.testing.assert_array_equal(same.predict(data), fit.predict(data))
    for unit, factor in (("m/s", 1.0), ("cm/s", 100.0)):
        found, _ = quietly(same, quantities(unit, factor))
        np.testing.assert_allclose(found, fit.predict(data), rtol=1e-10)
    area = xr.DataArray(quantity(np.arange(1.0, 9.0), "km**2"), {"station": data.station})
    weights = labelled.fit(data, weights=area, **QUICK).weights
    np.testing.assert_allclose(weights, np.arange(1.0, 9.0) / 4.5)
    with pytest.raises(ValueError, match="uwnd is in 'K', in fit it was in 'm/s'"):
        same.predict(quantities("kelvin", 1.0))


def test_weights_count_by_their_ratios_whatever_their_units(data):
    area = xr.DataArray(np.arange(1.0, 9.0), {"station": data.station}, attrs={"units": "km2"})
    metres = (area * 1e6).assign_attrs(units="m2")
    one, two = (labelled.fit(data, weights=weights, **QUICK) for weights in (area, metres))
    np.testing.assert_allclose(one.weights, two.weights)
    np.testing.assert_array_equal(one.regions, two.regions)


def gridded(data, units="m", factor=1.0):
    """The stations on a grid of four by two, half a kilometre wide."""
    grid = data.drop_vars("station").coarsen(station=2).construct(station=("y", "x"))
    grid = grid.assign_coords(
        x=("x", np.array([500.0, 1000.0]) * factor, {"units": units}),
        y=("y", np.array([0.0, 500.0, 1000.0, 1500.0]) * factor, {"units": units}),
    )
    return grid


def test_cells_are_matched_in_the_units_of_the_target(data, library):
    metres, kilometres = gridded(data), gridded(data, "km", 1e-3)
    fit = labelled.fit(metres, **QUICK)
    found, said = quietly(fit, kilometres.isel(x=[1, 0]))
    xr.testing.assert_allclose(found, fit.predict(metres))
    assert {text.partition(" ")[0] for text in said} == {"x", "y"}
    asked = {"held_out": None, "max_loss": 1.5, "aggregate": "mean"}
    features = [kilometres.uwnd, kilometres.t2m]
    joined, said = told(lambda: labelled.fit(metres.flux, features=features, **asked))
    xr.testing.assert_equal(joined.regions, fit.regions)
    np.testing.assert_array_equal(joined.coef, fit.coef)
    assert "y is converted from 'km' to 'm' (times 1000)." in said
    weights = xr.ones_like(kilometres.flux.isel(time=0, drop=True))
    weighted, said = told(lambda: labelled.fit(metres, **QUICK, weights=weights))
    np.testing.assert_array_equal(weighted.weights, np.ones(8))
    assert "x is converted from 'km' to 'm' (times 1000)." in said


def test_the_same_numbers_in_other_units_are_other_cells(data, nobody):
    fit = labelled.fit(gridded(data), **QUICK)
    with pytest.raises(ValueError, match="y is in 'km', with the other data it is in 'm'"):
        fit.predict(gridded(data, "km"))


def with_units(tasks, **units):
    """The same tasks, with units of their coordinates."""
    for name, said in units.items():
        tasks.coords.variables[name].attrs["units"] = said
    return tasks


def test_radians_are_degrees_to_neighbours_areas_and_names():
    lat, lon = np.linspace(-60.0, 60.0, 7), np.arange(0.0, 360.0, 30.0)
    degrees = cells(lat, lon)
    radians = with_units(cells(np.radians(lat), np.radians(lon)), lat="radians", lon="rad")
    np.testing.assert_allclose(radians.positions(), degrees.positions())
    for way in ("rook", "queen", ("nearest", 4)):
        there, here = (read_neighbours(way, tasks).toarray() for tasks in (degrees, radians))
        np.testing.assert_array_equal(here, there)
    assert "°" not in "".join(radians.names)
    assert with_units(degrees, lat="degrees_north").names[0] == "60°S 0°E"


def test_latitudes_in_radians_weigh_as_those_in_degrees(data):
    lat = np.linspace(0.0, 70.0, 8)
    there = data.assign_coords(lon=("station", lat), lat=("station", lat))
    here = data.assign_coords(
        {n: ("station", np.radians(lat), {"units": "radian"}) for n in ("lon", "lat")}
    )
    one, two = (labelled.fit(d, weights="area", **QUICK).weights for d in (there, here))
    np.testing.assert_allclose(two, one)
    np.testing.assert_allclose(one[-1] / one[0], np.cos(np.radians(70.0)))


def test_places_in_kilometres_and_metres_lie_in_one_plane(library):
    rng = np.random.default_rng(0)
    x, y = rng.uniform(0.0, 9000.0, size=(2, 12))
    names = [f"s{i}" for i in range(12)]
    metres = with_units(tasks_along("station", names, x=x, y=y), x="m", y="m")
    mixed = with_units(tasks_along("station", names, x=x / 1000.0, y=y), x="km", y="m")
    there, here = (read_neighbours("nearest:3", t).toarray() for t in (metres, mixed))
    np.testing.assert_array_equal(here, there)


def test_places_in_units_that_do_not_go_together_have_no_distance(nobody):
    tasks = tasks_along("station", list("abcd"), x=np.arange(4.0), y=np.arange(4.0))
    with_units(tasks, x="km", y="m")
    assert tasks.positions() is None
    with pytest.raises(ValueError, match="y is in 'm', x is in 'km'"):
        read_neighbours("nearest:2", tasks)


def test_longitudes_in_metres_lie_in_a_plane_and_x_in_degrees_on_the_globe():
    names, east = list("abcd"), np.array([-179.0, 179.0, 90.0, 0.0])
    globe = with_units(tasks_along("s", names, x=east, y=np.zeros(4)), x="degrees_east")
    assert globe.is_geographic
    assert read_neighbours("nearest:1", globe).toarray()[0].tolist() == [0.0, 1.0, 0.0, 0.0]
    plane = with_units(tasks_along("s", names, lon=east, lat=np.zeros(4)), lon="m", lat="m")
    assert not plane.is_geographic


def test_a_matrix_of_distances_is_no_graph(data):
    tasks = tasks_along("station", list("abcd"))
    distance = xr.DataArray(np.ones((4, 4)), dims=("a", "b"), attrs={"units": "km"})
    with pytest.raises(ValueError, match="the matrix of neighbours is in 'km'"):
        read_neighbours(distance, tasks)
    read_neighbours(distance.assign_attrs(units="1"), tasks)


@pytest.fixture(scope="module")
def run(tmp_path_factory, data):
    """A folder with a run of the command line."""
    folder = tmp_path_factory.mktemp("units")
    data.to_netcdf(folder / "flux.nc", engine="h5netcdf")
    options = ["--held-out", "none", "--max-loss", "1.5", "--aggregate", "mean", "--quiet"]
    asked = ["-t", "flux", "-f", "uwnd,t2m", "--sample", "time", "--task", "station", *options]
    assert cli.main(["fit", str(folder / "flux.nc"), *asked, "-o", str(folder / "run")]) == 0
    return folder


def predict(folder, data, tmp_path, *options, name="new.nc", **encoding):
    data.to_netcdf(tmp_path / name, engine="h5netcdf", **encoding)
    asked = [str(folder / "run"), str(tmp_path / name), "-o", str(tmp_path / "out.nc"), *options]
    return cli.main(["predict", *asked])


def test_the_command_line_converts_and_says_so(data, fit, run, library, tmp_path, capsys):
    single = {"encoding": {"uwnd": {"dtype": "f4"}}}
    assert predict(run, changed(data, "uwnd", "cm s-1", 100.0), tmp_path, **single) == 0
    said = capsys.readouterr()
    wanted = "ctfa predict: note: uwnd is converted from 'cm s-1' to 'm s-1' (times 0.01).\n"
    assert said.err == wanted
    found = labelled.read(tmp_path / "out.nc").flux
    np.testing.assert_allclose(found, fit.predict(data), atol=1e-4)
    assert found.attrs["units"] == "W m-2"


def test_the_command_line_prints_json_alone(data, run, library, tmp_path, capsys):
    other = changed(data, "uwnd", "cm s-1", 100.0)
    assert predict(run, other, tmp_path, "--json", "--quiet") == 0
    said = capsys.readouterr()
    assert json.loads(said.out)["target"] == "flux"
    assert said.err == ""


def test_the_command_line_refuses_other_units_before_it_writes(
    data, run, library, tmp_path, capsys
):
    other = changed(data, "uwnd", "hPa")
    other.to_netcdf(tmp_path / "new.nc", engine="h5netcdf")
    before = content(tmp_path)
    assert predict(run, other, tmp_path) == 1
    assert content(tmp_path) == before
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err == (
        "ctfa predict: uwnd is in 'hPa', in fit it was in 'm s-1', which measures something else: "
        "give uwnd in 'm s-1', or, if its units attribute is wrong, correct or drop it.\n"
    )


def test_the_command_line_says_what_to_install(data, run, nobody, tmp_path, capsys):
    assert predict(run, changed(data, "t2m", "K", 1.0, 273.15), tmp_path) == 1
    assert not (tmp_path / "out.nc").exists()
    assert capsys.readouterr().err == (
        "ctfa predict: t2m is in 'K', in fit it was in 'degC': convert t2m, or pip install "
        "'ctfa[units]' (pint), which lets ctfa do it.\n"
    )
